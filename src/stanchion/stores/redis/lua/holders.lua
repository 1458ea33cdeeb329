-- Workers, and the jobs that they or leases hold.

--- beat

-- Records that workers are alive. KEYS[1] is the hash of workers. ARGV: offset, then for each worker its id and its
-- description. Returns the clock and all workers as stored: started at, last seen at, description.

for index = 2, #ARGV, 2 do
    local known = redis.call('HGET', P, ARGV[index])
    redis.call('HDEL', P, '') -- needs no memory; later commands of the script are then not refused
    local started = known and string.match(known, '^[^\31]*') or whole(now)
    redis.call('HSET', P, ARGV[index], table.concat({ started, whole(now), ARGV[index + 1] }, US))
end
return { whole(now), redis.call('HVALS', P) }

--- began

-- Records the jobs that workers have begun, or their times. KEYS[1] is the hash of these lists. ARGV: offset, then for
-- each worker its id and its list, or '' for a release that does not report it.

for index = 2, #ARGV, 2 do
    redis.call('HDEL', P, ARGV[index]) -- needs no memory; later commands of the script are then not refused
    if ARGV[index + 1] ~= '' then
        redis.call('HSET', P, ARGV[index], ARGV[index + 1])
    end
end

--- holders

-- Returns the workers with running jobs, '' for those with a lease, and their numbers of jobs, alternating; one step
-- per worker. ARGV: offset.

local holders, from = {}, '-'
while true do
    local first = redis.call('ZRANGEBYLEX', P .. 'running', from, '+', 'LIMIT', 0, 1)[1]
    if not first then
        return holders
    end
    local worker = string.match(first, '^[^\31]*')
    holders[#holders + 1] = worker
    holders[#holders + 1] = redis.call('ZLEXCOUNT', P .. 'running', held_by(worker))
    from = '[' .. worker .. ' '
end

--- leased

-- Returns the names under which jobs are held by leases: each name, its number of jobs, and when the first and the last
-- of them was reserved. ARGV: offset, the number of leases to look at, those that end first.

local counts, first, last, names = {}, {}, {}, {}
local ids = redis.call('ZRANGE', P .. 'leases', 0, tonumber(ARGV[2]) - 1)
for _, state in ipairs(several('HMGET', P .. 'live', ids)) do
    local job = state and fields(state)
    if job and job[WORKER] ~= '' then
        local name, started = job[WORKER], tonumber(job[STARTED_AT]) or 0
        if not counts[name] then
            names[#names + 1], counts[name], first[name], last[name] = name, 0, started, started
        end
        counts[name] = counts[name] + 1
        first[name], last[name] = math.min(first[name], started), math.max(last[name], started)
    end
end
local found = {}
for _, name in ipairs(names) do
    for _, value in ipairs({ name, counts[name], whole(first[name]), whole(last[name]) }) do
        found[#found + 1] = value
    end
end
return found

--- orphans

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
    if #old < most and state and (tonumber(fields(state)[STARTED_AT]) or 0) <= moment then
        old[#old + 1] = ids[index]
    end
end
return old

--- reserved

-- Returns the ids of the jobs that are reserved under a token. ARGV: offset, token, 1 to read only jobs reserved as a
-- batch.

local token, batch = ARGV[2], P .. 'batch:' .. ARGV[2]
local listed = ARGV[3] == '1' or redis.call('EXISTS', batch) == 1
local ids, held = listed and redis.call('SMEMBERS', batch) or running_ids('-', '+'), {}
for index, state in ipairs(several('HMGET', P .. 'live', ids)) do
    if state and is_held(fields(state), token) then
        held[#held + 1] = ids[index]
    end
end
return held
