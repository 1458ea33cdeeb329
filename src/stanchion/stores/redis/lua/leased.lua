-- Returns the names under which jobs are held by leases: each name, its number of jobs, and when the first and the last
-- of them was reserved. ARGV: offset, the number of leases to look at, those that end first.

local counts, first, last, names = {}, {}, {}, {}
local ids = redis.call('ZRANGE', P .. 'leases', 0, tonumber(ARGV[2]) - 1)
for _, state in ipairs(several('HMGET', P .. 'live', ids)) do
    local job = state and fields(state)
    if job and job[WORKER] ~= '' then
        local name, started = job[WORKER], tonumber(job[STARTED]) or 0
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
