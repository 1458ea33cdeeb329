-- Stores jobs that left a queue of another cluster slot, each once. ARGV: offset, then for each: id, state, and the
-- body, which past waits may follow.

begin()
redis.call('HSETNX', P .. 'settings', 'made_at', whole(now))
for first = 2, #ARGV, 3 do
    local id, state, body = unpack(ARGV, first, first + 2)
    local job = fields(state)
    local arrival = id .. ':' .. job[REV]
    if not redis.call('ZSCORE', P .. 'arrived', arrival) then
        redis.call('ZADD', P .. 'arrived', whole(now), arrival)
        put(P, id, state, job, body)
    end
end
