-- What every script starts with: the clock, the keys of a queue, and a job's fields.
--
-- KEYS[1] is the prefix of the queue's keys, which share its hash slot. ARGV[1] is the clock offset, added to the
-- clock.
--
--   live      hash    id -> state of a live job          body     hash   id -> what rarely changes of it
--   past      hash    id -> state of a finished job      ended    zset   finished jobs by their end
--   ids       zset    all ids, in the order of the text  keys     hash   unique key -> id of its holder
--   ready     zset    ready lists: lanes and priorities in use, lane by lane, highest priority first; see `list_of`
--   ready:L:P zset    queued jobs of one lane and priority by run_at, then id
--   orders    zset    live jobs that have an order key, by it, enqueued_at and id; see `entry`
--   waits     zset    waiting jobs by the semaphore, order key or node that they wait for, waits_since and id
--   outbox    hash    idempotency key -> noted_at, job and text of what a step entails elsewhere
--   running   set     reserved jobs                      leases   zset   those without a worker by their end
--   stopping  set     running jobs asked to stop         counts   hash   what happened
--   settings  hash    of the queue                       signals  stream one entry a write that brings work
--   ends      stream one entry a step that ends jobs: their ids, or *
--   leaving   hash    id -> target and job, on its way to a queue of another cluster slot
--   arrived   zset    jobs that came that way, by when, and idempotency keys under which jobs are pushed only once
--   gone      zset    jobs that left for another queue, by when
--   batch:T   set     jobs that a reader elsewhere has reserved under the token T, be they done by now
--   batches   zset    such tokens, by when
--
-- Other scripts work on the keys of a semaphore or an order key, {slot}:, of a node of a flow, {node}:, of a write,
-- {write}:, or of the values of a kind, or on one key; they say which.
--
-- A server out of memory refuses a command that may need more, unless its script has written before. So each script
-- that brings something calls `begin` first: it is refused whole, or not at all. One that ends jobs, or takes them out,
-- calls `begin_always`: UNLINK needs no memory and counts as a write, so that nothing after it is refused. Both change
-- nothing.

local P = KEYS[1]
local US, RS = '\31', '\30'
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] + tonumber(ARGV[1])

local function whole(number)
    return string.format('%.0f', number)
end

local function begin()
    redis.call('ZADD', P .. 'moving', 'XX', 0, '')
end

local function begin_always()
    redis.call('UNLINK', P .. 'moving')
end

-- Begins a change of some jobs, which is refused for want of memory only where it brings more than a kilobyte for each.
local function begin_change(brought, jobs)
    if brought > 1000 * jobs then
        begin()
    else
        begin_always()
    end
end

-- The fields of a job's state, in order.
local REV, STATE, ATTEMPTS, TOKEN, WORKER, LEASE, STARTED, STOP = 1, 2, 3, 4, 5, 6, 7, 8
local LANE, PRIORITY, RUN_AT, ENQUEUED, FINISHED, KEY, RESULT = 10, 11, 12, 13, 15, 16, 18
local WAITS_FOR, SINCE, ORDER, BOUND, FIELDS = 21, 22, 23, 24, 24
local PATTERN = '^' .. string.rep('([^\31]*)\31', FIELDS - 1) .. '(.*)$'

local function fields(text)
    return { string.match(text, PATTERN) }
end

local function is_held(job, token)
    return job[STATE] == 'running' and job[TOKEN] == token and (job[LEASE] == '' or tonumber(job[LEASE]) > now)
end

-- Calls a command with many arguments, as many at a time as the stack of Lua holds.
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

local function keeps_history()
    local ttl = redis.call('HGET', P .. 'settings', 'history_ttl')
    return not ttl or tonumber(ttl) > 0
end

local function signal(prefix)
    redis.call('XADD', prefix .. 'signals', 'MAXLEN', '~', '64', '*', 'at', whole(now))
end

-- Tells those who wait for the ends of jobs; of very many it says that any may have ended.
local function tell_ends(ids)
    if #ids > 0 then
        local named = #ids > 200 and '*' or table.concat(ids, ' ')
        redis.call('XADD', P .. 'ends', 'MAXLEN', '~', '64', '*', 'ids', named)
    end
end

-- Where only so many jobs may run, one that ran and does not any more leaves a place.
local function free_place()
    local most = redis.call('HGET', P .. 'settings', 'max_running')
    if most and most ~= '' then
        signal(P)
    end
end

-- The name of a ready list: as text it sorts by lane, and from the highest priority to the lowest.
local function list_of(lane, priority)
    return string.format('%05d:%05d', lane, 5000 - priority)
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

-- A job in `orders` or `waits`: as text it sorts by the name there, the moment, and the id.
local function entry(name, moment, id)
    return table.concat({ name, string.rep('0', 20 - #moment) .. moment, id }, US)
end

-- Takes a job out of the queue, with all that points to it.
local function drop(id, job)
    if job[FINISHED] ~= '' then
        redis.call('HDEL', P .. 'past', id)
        redis.call('ZREM', P .. 'ended', id)
    else
        redis.call('HDEL', P .. 'live', id)
        if job[STATE] == 'running' then
            redis.call('SREM', P .. 'running', id)
            redis.call('SREM', P .. 'stopping', id)
            redis.call('ZREM', P .. 'leases', id)
        elseif job[STATE] == 'queued' then
            take_from_list(P, list_of(job[LANE], job[PRIORITY]), { id })
        elseif job[STATE] == 'waiting' then
            redis.call('ZREM', P .. 'waits', entry(job[WAITS_FOR], job[SINCE], id))
        end
        if job[ORDER] ~= '' then
            redis.call('ZREM', P .. 'orders', entry(job[ORDER], job[ENQUEUED], id))
        end
        if job[KEY] ~= '' and redis.call('HGET', P .. 'keys', job[KEY]) == id then
            redis.call('HDEL', P .. 'keys', job[KEY])
        end
    end
end

-- Tells whether the headers in a body may say that the job is a dead letter; see rules/dead_letters.py.
local function has_letter(body, id)
    return string.find(body, '"x-dead-id":"' .. id .. '"', 1, true) ~= nil
end

-- Puts a job into a queue, with all that points to it.
local function put(prefix, id, text, job, body)
    redis.call('ZADD', prefix .. 'ids', 0, id)
    if body ~= '' then
        redis.call('HSET', prefix .. 'body', id, body)
        if has_letter(body, id) then
            redis.call('HSET', prefix .. 'settings', 'letters', '1') -- here are some to be found among the dead
        end
    end
    if job[FINISHED] ~= '' then
        redis.call('HSET', prefix .. 'past', id, text)
        redis.call('ZADD', prefix .. 'ended', job[FINISHED], id)
        return
    end
    redis.call('HSET', prefix .. 'live', id, text)
    if job[KEY] ~= '' then
        redis.call('HSET', prefix .. 'keys', job[KEY], id)
    end
    if job[STATE] == 'running' then
        redis.call('SADD', prefix .. 'running', id)
        if job[LEASE] ~= '' then
            redis.call('ZADD', prefix .. 'leases', job[LEASE], id)
        end
        if job[STOP] == '1' then
            redis.call('SADD', prefix .. 'stopping', id)
        end
    elseif job[STATE] == 'queued' then
        local list = list_of(job[LANE], job[PRIORITY])
        redis.call('ZADD', prefix .. 'ready:' .. list, job[RUN_AT], id)
        add_list(prefix, list)
        signal(prefix)
    elseif job[STATE] == 'waiting' then
        redis.call('ZADD', prefix .. 'waits', 0, entry(job[WAITS_FOR], job[SINCE], id))
    end
    if job[ORDER] ~= '' then
        redis.call('ZADD', prefix .. 'orders', 0, entry(job[ORDER], job[ENQUEUED], id))
    end
end

-- Returns the full slots that the arguments name from a place on, as the states of jobs end that take one of them
-- first.
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

local function forget(id)
    redis.call('HDEL', P .. 'body', id)
    redis.call('ZREM', P .. 'ids', id)
end

local function delete_queue()
    for _, list in ipairs(redis.call('ZRANGE', P .. 'ready', 0, -1)) do
        redis.call('UNLINK', P .. 'ready:' .. list)
    end
    for _, token in ipairs(redis.call('ZRANGE', P .. 'batches', 0, -1)) do
        redis.call('UNLINK', P .. 'batch:' .. token)
    end
    for _, name in ipairs({
        'live', 'body', 'past', 'ended', 'ids', 'keys', 'ready', 'running', 'leases', 'stopping', 'counts', 'settings',
        'signals', 'ends', 'leaving', 'arrived', 'gone', 'orders', 'waits', 'outbox', 'batches',
    }) do
        redis.call('UNLINK', P .. name)
    end
end
