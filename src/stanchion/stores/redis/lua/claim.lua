--- claim

-- Reserves due jobs. ARGV: offset, limit, token, worker or '', lease in microseconds or '' for the queue's own, 1 to
-- return the jobs that the token holds already, if any, the kind of delivery or '', the first and the last lane or '' for all, 1
-- to reserve a batch, whose jobs are found by its token, the name of the holder of leases or '', the lowest rank. To skip
-- jobs of full slots: the ready list and the index in it to start at, or '' and 0. The time past which nothing is
-- reserved or ''; '' or the only jobs to reserve, each with its worker or '', which then stand for the worker and the
-- lanes; the full slots.
--
-- Returns what it found: 'expired' and ids whose leases ran out, which the caller frees before it asks again; 'held'
-- and the jobs that the token holds already; or 'jobs' and the jobs, in order; then the seconds until the rate of the
-- queue may allow more, or ''. If it stopped because it skipped too many jobs: also the list and the index to continue
-- at.

local limit, token, worker, lease, again, delivery = tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local popped, divides = delivery == 'popped', delivery == 'divided'
-- The worker of each job that the claim names, and these jobs in their order; nil for any jobs.
local worker_of, named = {}, ARGV[16] ~= '' and {}
for id, name in string.gmatch(ARGV[16], '([^\31\30]+)\31([^\30]*)') do
    if not worker_of[id] then
        worker_of[id] = name
        named[#named + 1] = id
    end
end
local first_lane, last_lane, batch = ARGV[8], ARGV[9], ARGV[10] == '1' and 'batch:' .. token
-- How the name of a ready list of the lowest rank ends; those of higher ranks sort before it.
local LOWEST = string.format('%05d', 5000 - tonumber(ARGV[12]))
local TAIL = '^([^\31]*)\31[^\31]*\31([^\31]*)' .. string.rep('\31[^\31]*', 7) .. '\31(([^\31]*)\31.*)$'

local expired = redis.call('ZRANGEBYSCORE', P .. 'leases', '-inf', whole(now), 'LIMIT', 0, 500)
if #expired > 0 then
    return { 'expired', expired, '' }
end

local function answer(found, ids, states, wait)
    local bodies, rows = several('HMGET', P .. 'body', ids), {}
    for index, id in ipairs(ids) do
        rows[index] = id .. US .. states[index] .. US .. bodies[index]
    end
    return { found, table.concat(rows, RS), wait }
end

if again == '1' then
    local held, states = {}, {}
    for _, id in ipairs(named or batch and redis.call('SMEMBERS', P .. batch) or running_ids(held_by(worker))) do
        local state = redis.call('HGET', P .. 'live', id)
        if state and is_held(fields(state), token) then
            held[#held + 1] = id
            states[#states + 1] = state
        end
    end
    if #held > 0 then
        return answer('held', held, states, '')
    end
end

local paused, max_rate, max_running, own_lease, tokens, filled_at, uses_lanes, history_ttl, ordered, head = unpack(redis.call(
    'HMGET', P .. 'settings', 'paused', 'max_rate', 'max_running', 'lease', 'rate_tokens', 'rate_at', 'uses_lanes',
    'history_ttl', 'ordered', 'head'
))
if divides then -- nothing runs, so that no limit counts, and the jobs need not be due
    paused, max_rate, max_running, ordered = nil, nil, nil, nil
end
if paused == '1' or (ARGV[15] ~= '' and now > tonumber(ARGV[15])) then
    return { 'jobs', '', '' }
end
ordered = ordered == '1'
if ordered then
    max_running = '1'
end
if max_running and max_running ~= '' then
    limit = math.min(limit, tonumber(max_running) - redis.call('ZCARD', P .. 'running'))
end

local rate, wait = nil, ''
if max_rate and max_rate ~= '' then
    rate = tonumber(max_rate)
    tokens = refilled(rate, tokens, filled_at, false)
    limit = math.min(limit, starts_in(tokens))
end

local ids = {}
local LOOKED_AT, looked, reached = 10000, 0, nil
local full = full_slots(17)

-- Returns those of some due jobs that don't wait first for a full slot.
local function eligible(some)
    if #full == 0 then
        return some
    end
    local chosen = {}
    looked = looked + #some
    for index, state in ipairs(several('HMGET', P .. 'live', some)) do
        if not waits_first(state, full) then
            chosen[#chosen + 1] = some[index]
        end
    end
    return chosen
end

-- Takes up to `limit` due jobs of lists that don't wait first for a full slot, list by list, from the list and the
-- index at which the previous call stopped.
local function take_beyond(lists)
    for _, list in ipairs(lists) do
        if string.sub(list, 7) > LOWEST then
            return
        end
        local rank, taken = list == ARGV[13] and tonumber(ARGV[14]) or 0, {}
        local due = list < ARGV[13] and 0 or redis.call('ZCOUNT', P .. 'ready:' .. list, '-inf', whole(now))
        while #ids < limit and rank < due and looked < LOOKED_AT do
            local some = redis.call('ZRANGE', P .. 'ready:' .. list, rank, math.min(due, rank + 1000) - 1)
            for _, id in ipairs(eligible(some)) do
                if #ids < limit then
                    taken[#taken + 1] = id
                    ids[#ids + 1] = id
                end
            end
            rank = rank + #some
        end
        if #taken > 0 then
            take_from_list(P, list, taken)
        end
        if #ids >= limit then
            return
        end
        if looked >= LOOKED_AT then
            reached = { list, rank - #taken }
            return
        end
    end
end

-- Takes up to `limit` due jobs of lists, list by list.
local function take_in_order(lists)
    for _, list in ipairs(lists) do
        if string.sub(list, 7) > LOWEST then
            return
        end
        local due = redis.call('ZRANGEBYSCORE', P .. 'ready:' .. list, '-inf', whole(now), 'LIMIT', 0, limit - #ids)
        if #due > 0 then
            take_from_list(P, list, due)
            for _, id in ipairs(due) do
                ids[#ids + 1] = id
            end
        end
        if #ids >= limit then
            return
        end
    end
end

local CHUNK = #full > 0 and 500 or math.min(limit, 16)

-- Returns a function that returns the next due job of a lane and its list, nil after the last.
local function due_in(lane)
    local lists = redis.call('ZRANGEBYLEX', P .. 'ready', '[' .. lane .. ':', '[' .. lane .. ':' .. LOWEST)
    local number, given, chunk, place, size = 1, 0, {}, 0, 0
    return function()
        place = place + 1
        while not chunk[place] do
            local last = size < CHUNK and given > 0
            if last then
                number, given = number + 1, 0
            end
            if not lists[number] or looked >= LOOKED_AT then
                return nil
            end
            chunk = redis.call(
                'ZRANGEBYSCORE', P .. 'ready:' .. lists[number], '-inf', whole(now), 'LIMIT', given, CHUNK
            )
            given, place, size = given + CHUNK, 1, #chunk
            chunk = eligible(chunk)
        end
        return chunk[place], lists[number]
    end
end

-- Takes up to `limit` due jobs, one of each lane in turn, from the lane after the round-robin offset on. `first`,
-- `last`: the range of lanes, as text. Lanes without a due job are skipped.
local function take_round_robin(first, last)
    local offset_field = 'last_lane:' .. first_lane .. '-' .. last_lane
    local served = redis.call('HGET', P .. 'settings', offset_field) or NO_LANE
    local taken, round = {}, {}
    local function take(lane, next_due)
        local id, list = next_due()
        if id then
            taken[list] = taken[list] or {}
            table.insert(taken[list], id)
            ids[#ids + 1] = id
            round[#round + 1] = { lane, next_due }
            served = lane
        end
    end
    local function go_along(from, to)
        while #ids < limit do
            local list = redis.call('ZRANGEBYLEX', P .. 'ready', from, to, 'LIMIT', 0, 1)[1]
            if not list then
                return
            end
            local lane = string.sub(list, 1, 5)
            take(lane, due_in(lane))
            from = '[' .. lane .. ';'
        end
    end
    local behind = math.max(tonumber(served), tonumber(first) - 1)
    go_along('[' .. string.format('%05d', behind) .. ';', '(' .. last .. ';')
    go_along('[' .. first .. ':', '(' .. string.format('%05d', math.min(behind, tonumber(last))) .. ';')
    while #ids < limit and #round > 0 do
        local lanes = round
        round = {}
        for _, lane in ipairs(lanes) do
            if #ids < limit then
                take(lane[1], lane[2])
            end
        end
    end
    for list, some in pairs(taken) do
        take_from_list(P, list, some)
    end
    if #ids > 0 then
        redis.call('HSET', P .. 'settings', offset_field, served)
    end
end

-- Takes up to `limit` of the jobs that the claim names, as far as they are queued and due.
local function take_named()
    for index, state in ipairs(several('HMGET', P .. 'live', named)) do
        local job = state and fields(state)
        if job and job[STATE] == 'queued' and (divides or tonumber(job[RUN_AT]) <= now) and #ids < limit then
            take_from_list(P, list_of(job[LANE], job[RANK]), { named[index] })
            ids[#ids + 1] = named[index]
        end
    end
end

-- Leaves, of the jobs that the claim names, the next one of an ordered queue without a head, if that is among them.
local function keep_next()
    for _, list in ipairs(redis.call('ZRANGE', P .. 'ready', 0, -1)) do
        local id = redis.call('ZRANGEBYSCORE', P .. 'ready:' .. list, '-inf', whole(now), 'LIMIT', 0, 1)[1]
        if id then
            named = worker_of[id] and { id } or {}
            return
        end
    end
end

-- Takes a queued job if it is due, and in the range of the claim.
local function take_this(id, job)
    local lane = tonumber(job[LANE])
    if tonumber(job[RUN_AT]) > now then
        wait = string.format('%.9f', (tonumber(job[RUN_AT]) - now) / 1000000)
    elseif first_lane == '' or (lane >= tonumber(first_lane) and lane <= tonumber(last_lane)) then
        take_from_list(P, list_of(job[LANE], job[RANK]), { id })
        ids[1] = id
    end
end

-- Returns the job that holds what a parked head waits for, if it is queued in this queue: the first one of its order
-- key, or one that was granted a semaphore. Only jobs from before the queue was ordered are.
local function holder_before(job)
    if string.sub(job[WAITS_FOR], 1, 1) == 'o' then
        local first = redis.call('ZRANGEBYLEX', P .. 'orders', '[' .. job[ORDER_KEY] .. US, '+', 'LIMIT', 0, 1)[1]
        return first and string.match(first, '[^\31]*$')
    end
    for _, list in ipairs(redis.call('ZRANGE', P .. 'ready', 0, -1)) do
        if tonumber(string.sub(list, 7)) < 4500 then -- the rank of a granted job is its priority and 1000
            return redis.call('ZRANGE', P .. 'ready:' .. list, 0, 0)[1]
        end
    end
end

-- Takes the head of an ordered queue if it is due; returns whether it is live, so that no other job may overtake it.
local function take_head()
    local state = head and redis.call('HGET', P .. 'live', head)
    if not state then
        return false
    end
    local job = fields(state)
    local id = job[STATE] == 'waiting' and holder_before(job) or head
    if id ~= head then
        job = fields(redis.call('HGET', P .. 'live', id) or state)
    end
    local meant = not named or worker_of[id]
    if job[STATE] == 'queued' and tonumber(job[RANK]) >= tonumber(ARGV[12]) and meant then
        take_this(id, job)
    end
    return true
end

if limit > 0 then
    -- A server out of memory still hands out jobs that leave nothing behind, so that it can be emptied.
    -- The TTL of an idle queue stays: a claim that takes nothing is no use, and a queue with live jobs has none.
    if popped or tonumber(history_ttl or 1) == 0 then
        never_refused()
    else
        refuse_if_full()
    end
    if ordered and take_head() then
        limit = 0 -- the others wait for it
    elseif named then
        if ordered then
            keep_next()
        end
        take_named()
    elseif first_lane ~= '' then
        take_round_robin(string.format('%05d', first_lane), string.format('%05d', last_lane))
    elseif uses_lanes == '1' then
        take_round_robin(NO_LANE, '99999')
    else
        local take = #full > 0 and take_beyond or take_in_order
        take(redis.call('ZRANGE', P .. 'ready', 0, -1))
    end
end

local states, items_started = {}, 0
if ordered and ids[1] and ids[1] ~= head then
    redis.call('HSET', P .. 'settings', 'head', ids[1])
end
if #ids > 0 then
    local lease_end = whole(now + (lease ~= '' and tonumber(lease) or math.floor(tonumber(own_lease or 30) * 1000000)))
    local function reserved_by(mine)
        local until_when = mine == '' and lease_end or ''
        return table.concat({ token, mine ~= '' and mine or ARGV[11], until_when, whole(now), delivery, '', '' }, US) .. US
    end
    local reserved = reserved_by(worker)
    local live, running, leases = {}, {}, {}
    for index, state in ipairs(several('HMGET', P .. 'live', ids)) do
        local rev, attempts, tail, items = string.match(state, TAIL)
        local id = ids[index]
        local mine = named and worker_of[id] or worker
        if named then
            reserved = reserved_by(mine)
        end
        states[index] = (rev + 1) .. US .. 'running' .. US .. (attempts + 1) .. US .. reserved .. tail
        items_started = items_started + items_of(items)
        live[2 * index - 1], live[2 * index] = id, states[index]
        running[2 * index - 1], running[2 * index] = 0, holding(mine, id)
        if mine == '' then
            leases[#leases + 1] = lease_end
            leases[#leases + 1] = id
        end
    end
    each('HSET', P .. 'live', live, 2)
    each('ZADD', P .. 'running', running, 2)
    if batch then
        each('SADD', P .. batch, ids, 1)
        redis.call('ZADD', P .. 'batches', whole(now), token)
    end
    each('ZADD', P .. 'leases', leases, 2)
    if not (popped or divides) then
        redis.call('HINCRBY', P .. 'counts', 'reserved', items_started)
    end
end

if rate then
    tokens = tokens - items_started
    if #ids > 0 then
        redis.call('HSET', P .. 'settings', 'rate_tokens', string.format('%.17g', tokens), 'rate_at', whole(now))
    end
    if starts_in(tokens) < 1 then
        wait = string.format('%.9f', next_in(rate, tokens))
    end
end
local given = answer('jobs', ids, states, wait)
if reached then
    given[4], given[5] = reached[1], reached[2]
end
return given
