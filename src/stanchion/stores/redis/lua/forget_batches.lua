-- Forgets batches without reserved jobs. ARGV: offset, the time before which they must have been reserved.

for _, token in ipairs(redis.call('ZRANGEBYSCORE', P .. 'batches', '-inf', '(' .. ARGV[2], 'LIMIT', 0, 100)) do
    local holds = false
    for _, id in ipairs(redis.call('SMEMBERS', P .. 'batch:' .. token)) do
        local state = redis.call('HGET', P .. 'live', id)
        holds = holds or (state and is_held(fields(state), token))
    end
    if holds then
        redis.call('ZADD', P .. 'batches', whole(now), token)
    else
        redis.call('UNLINK', P .. 'batch:' .. token)
        redis.call('ZREM', P .. 'batches', token)
    end
end
