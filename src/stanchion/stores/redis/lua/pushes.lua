-- Storing new jobs, and jobs that come from elsewhere.

--- push

-- Stores new jobs. ARGV: offset, when they count as enqueued or '' for now, then for each job: id, what to do about a
-- duplicate, priority, lane, run_at, delay in microseconds, key, what it waits for, order key, the field BOUND, '' or
-- the idempotency key under which it is stored only once, '' or the microseconds for which a finished job holds its
-- key, '' or the microseconds after which it expires, '' or 1 for a part of a chunk, and its body, as one text. Of a part,
-- its state comes before the body; it may be finished.
--
-- Returns when the jobs count as enqueued; 1 if the queue was missing; and the jobs that were not stored: their number in the batch, 'known'
-- or 'taken' or 'refused', the id of the stored job, and its state, '' if it is not here any more. 'refused' stands
-- alone: nothing was stored.

local PARTS = '^' .. string.rep('([^\31]*)\31', 14) .. '(.*)$'
local live, past, body, ids = {}, {}, {}, {}
local coming, given, answers = {}, {}, {}

local enqueued_at = ARGV[2] == '' and whole(now) or ARGV[2]
for number = 3, #ARGV do
    given[#given + 1] = { string.match(ARGV[number], PARTS) }
    ids[#ids + 1] = given[#given][1]
end
local lives, pasts = several('HMGET', P .. 'live', ids), several('HMGET', P .. 'past', ids)
local gone = redis.call('EXISTS', P .. 'gone') == 1 and several('ZMSCORE', P .. 'gone', ids) or {}

local stored_once = {}
for _, job in ipairs(given) do
    local once = job[11]
    if once ~= '' and stored_once[once] == nil then
        stored_once[once] = redis.call('ZSCORE', P .. 'arrived', once)
    end
end

-- Returns the finished job that holds a key, with its state.
local function finished_holder(key, id, ttl)
    local holder = ttl ~= '' and redis.call('HGET', P .. 'ended_keys', key)
    local state = holder and holder ~= id and redis.call('HGET', P .. 'past', holder)
    if state and tonumber(fields(state)[FINISHED_AT]) > now - tonumber(ttl) then
        return holder, state
    end
end

local function holder_of(key, id, ttl)
    return redis.call('HGET', P .. 'keys', key) or coming[key] or finished_holder(key, id, ttl) or id
end

local function list_expiring(id, since, expires)
    if expires ~= '' then
        redis.call('ZADD', P .. 'overdue', whole(tonumber(since) + tonumber(expires)), id)
    end
end

for number, job in ipairs(given) do
    local id, key = job[1], job[7]
    if key ~= '' and not (lives[number] or pasts[number] or gone[number]) then
        local holder = holder_of(key, id, job[12])
        coming[key] = coming[key] or id
        if holder ~= id and job[2] == 'raise' then
            return { whole(now), 0, { number - 1, 'refused', holder, redis.call('HGET', P .. 'past', holder) or '' } }
        end
    end
end

begin()
coming = {}
local lists, stored, states, orders, waits, pushed = {}, {}, {}, {}, {}, 0
local in_lanes, use_slots = false, false
for number, job in ipairs(given) do
    local id, _, priority, lane, run_at, delay, key, slot, order, bound, once, ttl, expires, part, rest = unpack(job)
    local known = stored[id] or lives[number] or pasts[number] or (gone[number] or stored_once[once]) and ''
    local holder = key ~= '' and not known and holder_of(key, id, ttl) or id
    if known then
        answers[#answers + 1] = number - 1
        answers[#answers + 1] = 'known'
        answers[#answers + 1] = id
        answers[#answers + 1] = known
    elseif holder ~= id then
        answers[#answers + 1] = number - 1
        answers[#answers + 1] = 'taken'
        answers[#answers + 1] = holder
        answers[#answers + 1] = stored[holder] or redis.call('HGET', P .. 'live', holder)
            or redis.call('HGET', P .. 'past', holder)
    elseif part ~= '' then
        local state, content = string.match(rest, STATE_AND_REST)
        local made = fields(state)
        store(P, id, state, made, content)
        list_expiring(id, made[ENQUEUED_AT], expires)
        stored[id] = state
        pushed = pushed + items_of(made[ITEMS])
    else
        if run_at == '' then
            run_at = whole(tonumber(enqueued_at) + tonumber(delay))
        end
        local state = table.concat({
            '0', slot == '' and 'queued' or 'waiting', '0', '', '', '', '', '', '', '', '', lane, priority, priority,
            run_at, enqueued_at, '0', '', '', key, '', '', '', '', '', slot, slot == '' and '' or whole(now), '', order,
            bound,
        }, US)
        if key ~= '' then
            coming[key] = id
            redis.call('HSET', P .. 'keys', key, id)
        end
        stored[id] = state
        in_lanes, use_slots = in_lanes or lane ~= UNLANED, use_slots or uses_slots(bound)
        states[#states + 1] = id
        live[#live + 1] = id
        live[#live + 1] = state
        body[#body + 1] = id
        body[#body + 1] = rest
        list_expiring(id, enqueued_at, expires)
        if slot == '' then
            local list = list_of(lane, priority)
            if not lists[list] then
                lists[list] = {}
                add_list(P, list)
            end
            local queued = lists[list]
            queued[#queued + 1] = run_at
            queued[#queued + 1] = id
        else
            waits[#waits + 1] = 0
            waits[#waits + 1] = entry(slot, whole(now), id)
        end
        if order ~= '' then
            orders[#orders + 1] = 0
            orders[#orders + 1] = entry(order, enqueued_at, id)
        end
    end
end

if #states > 0 then
    local listed = {}
    for _, id in ipairs(states) do
        listed[#listed + 1] = 0
        listed[#listed + 1] = id
    end
    each('HSET', P .. 'live', live, 2)
    each('HSET', P .. 'body', body, 2)
    each('ZADD', P .. 'ids', listed, 2)
    for list, queued in pairs(lists) do
        each('ZADD', P .. 'ready:' .. list, queued, 2)
    end
    each('ZADD', P .. 'orders', orders, 2)
    each('ZADD', P .. 'waits', waits, 2)
    shape(P, in_lanes, use_slots)
    pushed = pushed + #states
    signal(P)
end
if pushed > 0 then
    redis.call('HINCRBY', P .. 'counts', 'pushed', pushed)
end
for once, before in pairs(stored_once) do
    if not before then
        redis.call('ZADD', P .. 'arrived', whole(now), once)
    end
end
return { enqueued_at, redis.call('HSETNX', P .. 'settings', 'made_at', whole(now)), answers }

--- push_prepared

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
        '0', 'queued', '0', '', '', '', '', '', '', '', '', UNLANED, priority, priority, run_at, enqueued_at, '0', '', '',
        '', '', '', '', '', '', '', '', '', '', '',
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

--- adopt

-- Stores jobs of another store unchanged. ARGV: offset, then for each: id, state, and the body, which past waits may
-- follow.
--
-- Returns for each: 1 it is here, 0 a live job has its key; and last, 1 if the queue was missing.

begin()
local answers = {}
for first = 2, #ARGV, 3 do
    local id, state, body = unpack(ARGV, first, first + 2)
    local job = fields(state)
    local holder = job[KEY] ~= '' and job[FINISHED_AT] == '' and redis.call('HGET', P .. 'keys', job[KEY])
    local known = redis.call('HEXISTS', P .. 'live', id) + redis.call('HEXISTS', P .. 'past', id) > 0
        or redis.call('ZSCORE', P .. 'gone', id)
    if known or not holder then
        answers[#answers + 1] = 1
        if not known then
            put(P, id, state, job, body)
        end
    else
        answers[#answers + 1] = 0
    end
end
answers[#answers + 1] = redis.call('HSETNX', P .. 'settings', 'made_at', whole(now))
return answers

--- arrive

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
        store(P, id, state, job, body)
    end
end

--- count

-- Adds to the counters of the queue what a step in a queue of another cluster slot counts here, once. ARGV: offset, the
-- idempotency key, counters.

begin()
if redis.call('ZADD', P .. 'arrived', 'NX', whole(now), ARGV[2]) == 1 then
    redis.call('HSETNX', P .. 'settings', 'made_at', whole(now))
    count(P, ARGV[3])
end

--- left

-- Forgets a job, or counters, that have arrived in a queue of another cluster slot. ARGV: offset, the key and the value
-- in `leaving` as they were read. A job that came back and leaves again stays.

if redis.call('HGET', P .. 'leaving', ARGV[2]) == ARGV[3] then
    redis.call('HDEL', P .. 'leaving', ARGV[2])
end
