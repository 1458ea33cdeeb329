-- Stores prepared jobs, which are new, due, and without keys, slots and lanes; not again under an idempotency key. ARGV:
-- offset, the idempotency key, run_at, and the jobs as MessagePack, see prepared.py.
--
-- Returns 1 if the queue was missing.

local once, run_at = ARGV[2], ARGV[3]
local body, priorities = unpack(cmsgpack.unpack(ARGV[4]))
if redis.call('ZSCORE', P .. 'arrived', once) then
    return 0
end

begin()
local enqueued_at = whole(now)
local states, lists = {}, {}
local function of_priority(priority)
    local list = list_of(UNLANED, priority)
    states[priority] = table.concat({
        '0', 'queued', '0', '', '', '', '', '', '', UNLANED, priority, priority, run_at, enqueued_at, '0', '', '', '',
        '', '', '', '', '', '', '', '',
    }, US)
    lists[priority] = {}
    add_list(P, list)
end

local same = type(priorities) == 'string' and priorities
local live, ids = {}, {}
for number = 1, #body, 2 do
    local id, priority = body[number], same or priorities[(number + 1) / 2]
    if not states[priority] then
        of_priority(priority)
    end
    local queued = lists[priority]
    live[number], live[number + 1] = id, states[priority]
    ids[number], ids[number + 1] = '0', id
    queued[#queued + 1] = run_at
    queued[#queued + 1] = id
end
each('HSET', P .. 'live', live, 2)
each('HSET', P .. 'body', body, 2)
each('ZADD', P .. 'ids', ids, 2)
for priority, queued in pairs(lists) do
    each('ZADD', P .. 'ready:' .. list_of(UNLANED, priority), queued, 2)
end
redis.call('HINCRBY', P .. 'counts', 'pushed', #body / 2)
signal(P)
redis.call('ZADD', P .. 'arrived', enqueued_at, once)
return redis.call('HSETNX', P .. 'settings', 'made_at', enqueued_at)
