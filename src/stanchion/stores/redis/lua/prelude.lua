--- prelude

-- The common beginning of every script: the clock, the keys of a queue, and a job's fields.
--
-- KEYS[1] is the prefix of the queue's keys, which share its hash slot. ARGV[1] is the clock offset in microseconds.
--
--   live      hash    id -> state of a live job          body     hash   id -> fields that rarely change
--   past      hash    id -> state of a finished job      ended    zset   finished jobs by their end
--   past_waits hash   id -> the waits of a job that are over, and the payloads that it keeps, if there are any
--   ids       zset    all ids, in the order of the text  keys     hash   unique key -> id of its holder
--   letters   zset    the ids among them of dead letters, live or finished
--   ended_keys hash   unique key -> id of the finished job that had it last, unless it was cancelled
--   ready     zset    ready lists: lanes and ranks in use, lane by lane, highest rank first; see `list_of`
--   ready:L:R zset    queued jobs of one lane and rank by run_at, then id
--   orders    zset    live jobs that have an order key, by it, enqueued_at and id; see `entry`
--   waits     zset    waiting jobs by the semaphore, order key or node that they wait for, waits_since and id
--   outbox    hash    idempotency key -> written_at, job and text of an outbox entry
--   running   zset    reserved jobs by worker, or '' for those with a lease, and id; see `holding`
--   leases    zset    reserved jobs with a lease by its end
--   overdue   zset    jobs that expire, by that time; upkeep removes those that have begun or ended
--   stopping  set     running jobs asked to stop         counts   hash   numbers of events
--   settings  hash    of the queue                       signals  stream one entry a write that brings work
--   ends      stream one entry a step that ends jobs: their ids, or *
--   leaving   hash    id -> target and job, in transit to a queue of another cluster slot; and what steps add to the
--                     counters of such a queue: id, REV and queue -> queue, the same key, and counters
--   arrived   zset    arrivals of jobs in transit, and idempotency keys of pushes, by time
--   gone      zset    jobs that left for another queue, by time
--   batch:T   set     jobs reserved as a batch under the token T, including those that are done
--   batches   zset    tokens of batches, by time
--   shapes    set     there while upkeep may have to reset the shape
--   lapsing   zset    of a queue with an expiry: '' with the score 0 while its keys have a TTL, 1 once they had one
--
-- Other scripts work on the keys of a semaphore or an order key, {slot}:, of a flow node, {node}:, of a write,
-- {write}:, or of the values of a kind, or on one key; they say which.
--
-- A server out of memory refuses a command that may need more, unless its script has written before. So each script
-- that adds data calls `begin` first: it is refused as a whole, or not at all. A script that ends or removes jobs calls
-- `begin_always`: UNLINK needs no memory and counts as a write, so that no later command is refused.
--
-- The keys of an idle queue with an expiry have a TTL (`lapse`). Both functions end it by the very command that tests the
-- memory, so other queues need no further command. Each script that may store something in an idle queue must call one
-- of them: a job that is stored beside a TTL is lost. `refuse_if_full` and `never_refused` leave the TTL as it is.

local P = KEYS[1]
local US, RS, GS = '\31', '\30', '\29'
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] + tonumber(ARGV[1])

local function whole(number)
    return string.format('%.0f', number)
end

local function refuse_if_full()
    redis.call('ZADD', P .. 'moving', 'XX', 0, '')
end

local function never_refused()
    redis.call('UNLINK', P .. 'moving')
end

-- Returns all keys that a queue may have.
local function keys_of(prefix)
    local keys = {}
    for _, list in ipairs(redis.call('ZRANGE', prefix .. 'ready', 0, -1)) do
        keys[#keys + 1] = prefix .. 'ready:' .. list
    end
    for _, token in ipairs(redis.call('ZRANGE', prefix .. 'batches', 0, -1)) do
        keys[#keys + 1] = prefix .. 'batch:' .. token
    end
    for _, name in ipairs({
        'live', 'body', 'past_waits', 'past', 'shapes', 'ended', 'ids', 'keys', 'ready', 'running', 'leases', 'stopping',
        'counts', 'settings', 'signals', 'ends', 'leaving', 'arrived', 'gone', 'orders', 'waits', 'outbox', 'batches',
        'ended_keys', 'lapsing', 'letters', 'overdue', 'chunks',
    }) do
        keys[#keys + 1] = prefix .. name
    end
    return keys
end

local function end_ttl(prefix)
    redis.call('HSET', prefix .. 'settings', 'lapses_at', '')
    for _, key in ipairs(keys_of(prefix)) do
        redis.call('PERSIST', key)
    end
end

-- Ends the TTL of a queue that something comes to. It is refused for want of memory unless the script has written.
local function revive(prefix)
    if redis.call('ZADD', prefix .. 'lapsing', 'XX', 'CH', 1, '') == 1 then
        end_ttl(prefix)
    end
end

local function begin()
    revive(P)
end

local function begin_always()
    if redis.call('UNLINK', P .. 'lapsing') == 1 then
        end_ttl(P)
    end
end

-- Begins a change of some jobs; it is refused for want of memory only if it adds more than a kilobyte per job.
local function begin_change(brought, jobs)
    if brought > 1000 * jobs then
        begin()
    else
        begin_always()
    end
end

-- The fields of a job's state, in order: client/layout.py reads their names here. WAITS_FOR and BOUND are made of others.
local REV, STATE, ATTEMPTS, TOKEN, WORKER, LEASE_UNTIL, STARTED_AT, DELIVERY, CANCEL_REQUESTED, PROGRESS, ITEMS, LANE,
    PRIORITY, RANK, RUN_AT, ENQUEUED_AT, FAILURES, DEAD_FROM, FINISHED_AT, KEY, ERRORS, RESULT, SLOTS_HELD, ORDER_HOLD,
    SLOTS_HOLD, WAITS_FOR, WAITS_SINCE, PROMISED, ORDER_KEY, BOUND =
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
local FIELDS = BOUND
-- The lane of jobs in none; and how the names of their ready lists begin, which sort before all others.
local UNLANED, NO_LANE = '-1', '-0001'
local PATTERN = '^' .. string.rep('([^\31]*)\31', FIELDS - 1) .. '(.*)$'

-- A state, and the text that follows it.
local STATE_AND_REST = '^(' .. string.rep('[^\31]*\31', FIELDS - 1) .. '[^\31]*)\31(.*)$'

local function fields(text)
    return { string.match(text, PATTERN) }
end

local function is_held(job, token)
    return job[STATE] == 'running' and job[TOKEN] == token and (job[LEASE_UNTIL] == '' or tonumber(job[LEASE_UNTIL]) > now)
end

-- Calls a command with many arguments, as many at a time as the Lua stack holds.
local function each(command, key, arguments, width)
    local most = 2000 * width
    for first = 1, #arguments, most do
        redis.call(command, key, unpack(arguments, first, math.min(first + most - 1, #arguments)))
    end
end

local function several(command, key, ids)
    local found = {}
    for first = 1, #ids, 2000 do
        local part = redis.call(command, key, unpack(ids, first, math.min(first + 1999, #ids)))
        for index = 1, #part do
            found[first + index - 1] = part[index]
        end
    end
    return found
end

-- Returns the number of items that a job stands for, given its field ITEMS.
local function items_of(items)
    return items == '' and 1 or tonumber(items)
end

-- Adds to counters: names and numbers, alternating, separated by spaces.
local function count(prefix, counted)
    for event, number in string.gmatch(counted, '([^ ]+) ([^ ]+)') do
        redis.call('HINCRBY', prefix .. 'counts', event, number)
    end
end

local function keeps_history(prefix)
    local ttl = redis.call('HGET', prefix .. 'settings', 'history_ttl')
    return not ttl or tonumber(ttl) > 0
end

local function signal(prefix)
    redis.call('XADD', prefix .. 'signals', 'MAXLEN', '~', '64', '*', 'at', whole(now))
end

-- Signals ends of jobs; for very many, the signal stands for any.
local function tell_ends(ids)
    if #ids > 0 then
        local named = #ids > 200 and '*' or table.concat(ids, ' ')
        redis.call('XADD', P .. 'ends', 'MAXLEN', '~', '64', '*', 'ids', named)
    end
end

-- With max_running, a job that stops running makes room for another one: signal that.
local function free_place()
    local most = redis.call('HGET', P .. 'settings', 'max_running')
    if most and most ~= '' then
        signal(P)
    end
end

-- The name of a ready list: as text, it sorts by lane, then from the highest rank to the lowest.
local function list_of(lane, rank)
    return string.format('%05d:%05d', lane, 5000 - rank)
end

local function add_list(prefix, list)
    redis.call('ZADD', prefix .. 'ready', 0, list)
end

local function take_from_list(prefix, list, ids)
    each('ZREM', prefix .. 'ready:' .. list, ids, 1)
    if redis.call('EXISTS', prefix .. 'ready:' .. list) == 0 then
        redis.call('ZREM', prefix .. 'ready', list)
    end
end

-- A job in `orders` or `waits`: as text, it sorts by name, time and id.
local function entry(name, moment, id)
    return table.concat({ name, string.rep('0', 20 - #moment) .. moment, id }, US)
end

-- A job in `running`: as text, it sorts by worker, '' for a job with a lease, and id.
local function holding(worker, id)
    return worker .. US .. id
end

-- The same of a stored job: a lease decides alone, and its holder may have the name of a worker.
local function holding_of(lease, worker, id)
    return holding(lease == '' and worker or '', id)
end

-- The bounds in `running` of all jobs that a worker holds.
local function held_by(worker)
    return '[' .. worker .. US, '(' .. worker .. ' '
end

-- The ids of the jobs in `running` between two bounds.
local function running_ids(from, to)
    local ids = redis.call('ZRANGEBYLEX', P .. 'running', from, to)
    for index, one in ipairs(ids) do
        ids[index] = string.match(one, '[^\31]*$')
    end
    return ids
end

-- Keeps the key of a job that is finished, unless it was cancelled, or a later one had the key; `job`: its state.
local function keep_key(prefix, id, job)
    if job[KEY] == '' or job[STATE] == 'cancelled' then
        return
    end
    local other = redis.call('HGET', prefix .. 'ended_keys', job[KEY])
    local state = other and redis.call('HGET', prefix .. 'past', other)
    if not state or tonumber(fields(state)[FINISHED_AT]) <= tonumber(job[FINISHED_AT]) then
        redis.call('HSET', prefix .. 'ended_keys', job[KEY], id)
    end
end

local function forget_key(id, key)
    if key ~= '' and redis.call('HGET', P .. 'ended_keys', key) == id then
        redis.call('HDEL', P .. 'ended_keys', key)
    end
end

-- Removes a job from the queue and its indexes.
local function drop(id, job)
    if job[DEAD_FROM] ~= '' then
        redis.call('ZREM', P .. 'letters', id)
    end
    if job[FINISHED_AT] ~= '' then
        forget_key(id, job[KEY])
        redis.call('HDEL', P .. 'past', id)
        redis.call('ZREM', P .. 'ended', id)
    else
        redis.call('HDEL', P .. 'live', id)
        if job[ITEMS] ~= '' then
            redis.call('SREM', P .. 'chunks', id)
        end
        if job[STATE] == 'running' then
            redis.call('ZREM', P .. 'running', holding_of(job[LEASE_UNTIL], job[WORKER], id))
            redis.call('SREM', P .. 'stopping', id)
            redis.call('ZREM', P .. 'leases', id)
        elseif job[STATE] == 'queued' then
            take_from_list(P, list_of(job[LANE], job[RANK]), { id })
        elseif job[STATE] == 'waiting' then
            redis.call('ZREM', P .. 'waits', entry(job[WAITS_FOR], job[WAITS_SINCE], id))
        end
        if job[ORDER_KEY] ~= '' then
            redis.call('ZREM', P .. 'orders', entry(job[ORDER_KEY], job[ENQUEUED_AT], id))
        end
        if job[KEY] ~= '' and redis.call('HGET', P .. 'keys', job[KEY]) == id then
            redis.call('HDEL', P .. 'keys', job[KEY])
        end
    end
end

-- Returns whether a job is an unreserved dead letter; see rules/lifecycle/dead_letters.py.
local function is_letter(job)
    return job[DEAD_FROM] ~= '' and (job[STATE] == 'queued' or job[STATE] == 'waiting')
end

-- Stores the shape of a queue whose jobs are in lanes, or use slots.
local function shape(prefix, in_lanes, use_slots)
    if in_lanes then
        redis.call('HSET', prefix .. 'settings', 'uses_lanes', '1')
    end
    if use_slots then
        redis.call('HSET', prefix .. 'settings', 'uses_slots', '1')
    end
    if in_lanes or use_slots then
        redis.call('SADD', prefix .. 'shapes', '1') -- not SET: a plain push needs no right to replace keys
    end
end

-- Returns whether a job with this field BOUND uses slots.
local function uses_slots(bound)
    return bound ~= '' and bound ~= '1'
end

-- Adds a job to a queue and its indexes; its past waits may follow the body.
local function put(prefix, id, text, job, body)
    redis.call('ZADD', prefix .. 'ids', 0, id)
    if body ~= '' then
        local content, waited = string.match(body, '^([^\29]*)\29(.*)$')
        if waited then
            redis.call('HSET', prefix .. 'past_waits', id, waited)
            body = content
        end
        redis.call('HSET', prefix .. 'body', id, body)
    end
    if job[DEAD_FROM] ~= '' then
        redis.call('ZADD', prefix .. 'letters', 0, id)
    end
    if job[FINISHED_AT] ~= '' then
        redis.call('HSET', prefix .. 'past', id, text)
        redis.call('ZADD', prefix .. 'ended', job[FINISHED_AT], id)
        keep_key(prefix, id, job)
        return
    end
    redis.call('HSET', prefix .. 'live', id, text)
    if job[ITEMS] ~= '' then
        redis.call('SADD', prefix .. 'chunks', id)
    end
    shape(prefix, job[LANE] ~= UNLANED, uses_slots(job[BOUND]))
    if job[KEY] ~= '' then
        redis.call('HSET', prefix .. 'keys', job[KEY], id)
    end
    if job[STATE] == 'running' then
        redis.call('ZADD', prefix .. 'running', 0, holding_of(job[LEASE_UNTIL], job[WORKER], id))
        if job[LEASE_UNTIL] ~= '' then
            redis.call('ZADD', prefix .. 'leases', job[LEASE_UNTIL], id)
        end
        if job[CANCEL_REQUESTED] == '1' then
            redis.call('SADD', prefix .. 'stopping', id)
        end
    elseif job[STATE] == 'queued' then
        local list = list_of(job[LANE], job[RANK])
        redis.call('ZADD', prefix .. 'ready:' .. list, job[RUN_AT], id)
        add_list(prefix, list)
        signal(prefix)
    elseif job[STATE] == 'waiting' then
        redis.call('ZADD', prefix .. 'waits', 0, entry(job[WAITS_FOR], job[WAITS_SINCE], id))
    end
    if job[ORDER_KEY] ~= '' then
        redis.call('ZADD', prefix .. 'orders', 0, entry(job[ORDER_KEY], job[ENQUEUED_AT], id))
    end
end

-- Adds a job to a queue, unless it is finished and the queue keeps no history.
local function store(prefix, id, text, job, body)
    if job[FINISHED_AT] == '' or keeps_history(prefix) then
        put(prefix, id, text, job, body)
    end
end

-- Returns the full slots in the arguments from `first` on, in the form in which the state of a job ends that waits
-- first for one of them.
local function full_slots(first)
    local full = {}
    for number = first, #ARGV do
        full[#full + 1] = US .. ARGV[number]
    end
    return full
end

local function waits_first(state, full)
    for _, slot in ipairs(full) do
        if string.sub(state, -#slot) == slot then
            return true
        end
    end
    return false
end

-- Returns jobs as text, given their ids, states and bodies, with the past waits of those that have any.
local function as_texts(ids, states, bodies)
    local rows, waited = {}, several('HMGET', P .. 'past_waits', ids)
    for index, id in ipairs(ids) do
        rows[index] = id .. US .. states[index] .. US .. bodies[index] .. (waited[index] and GS .. waited[index] or '')
    end
    return table.concat(rows, RS)
end

local function forget(id)
    redis.call('HDEL', P .. 'body', id)
    redis.call('HDEL', P .. 'past_waits', id)
    redis.call('ZREM', P .. 'ids', id)
end

local function delete_queue()
    for _, key in ipairs(keys_of(P)) do
        redis.call('UNLINK', key)
    end
end
