-- Forgets tokens of readers elsewhere that have nothing in hand any more. ARGV: skew, the moment before which they must
-- have reserved last.

for _, token in ipairs(redis.call('ZRANGEBYSCORE', P .. 'hands', '-inf', '(' .. ARGV[2], 'LIMIT', 0, 100)) do
    local holds = false
    for _, id in ipairs(redis.call('SMEMBERS', P .. 'hand:' .. token)) do
        local state = redis.call('HGET', P .. 'live', id)
        holds = holds or (state and is_held(fields(state), token))
    end
    if holds then
        redis.call('ZADD', P .. 'hands', whole(now), token)
    else
        redis.call('UNLINK', P .. 'hand:' .. token)
        redis.call('ZREM', P .. 'hands', token)
    end
end
