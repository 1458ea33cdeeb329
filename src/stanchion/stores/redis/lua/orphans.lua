-- Returns up to a number of jobs that a worker has been running since a moment. ARGV: offset, worker, moment, number.
--
-- It looks at the first 10,000 jobs of the worker: the server serves no other client meanwhile.

local moment, most = tonumber(ARGV[3]), tonumber(ARGV[4])
local from, to = held_by(ARGV[2])
local ids, old = redis.call('ZRANGEBYLEX', P .. 'running', from, to, 'LIMIT', 0, 10000), {}
for index, one in ipairs(ids) do
    ids[index] = string.match(one, '[^\31]*$')
end
for index, state in ipairs(several('HMGET', P .. 'live', ids)) do
    if #old < most and state and (tonumber(fields(state)[STARTED]) or 0) <= moment then
        old[#old + 1] = ids[index]
    end
end
return old
