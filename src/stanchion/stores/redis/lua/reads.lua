-- What a queue holds.

--- read

-- Returns the clock, the jobs with these ids, and the ids of those in transit to another queue. ARGV: offset, ids.

local ids = { unpack(ARGV, 2) }
local lives, pasts = several('HMGET', P .. 'live', ids), several('HMGET', P .. 'past', ids)
local bodies = several('HMGET', P .. 'body', ids)
local found, states, contents, leaving = {}, {}, {}, {}
for index, id in ipairs(ids) do
    local state = lives[index] or pasts[index]
    if state then
        found[#found + 1], states[#states + 1], contents[#contents + 1] = id, state, bodies[index]
    elseif redis.call('HEXISTS', P .. 'leaving', id) == 1 then
        leaving[#leaving + 1] = id
    end
end
return { whole(now), as_texts(found, states, contents), leaving }

--- walk

-- Walks along the ids of a queue. ARGV: offset, 'newest' from the highest id down or 'id' from the lowest up, the lower
-- and the upper bound as for ZRANGEBYLEX, the number of ids to read, their key: 'ids', or 'letters' for those of dead
-- letters; then the states wanted, none for all; `letter` stands for dead letters.
--
-- Returns the clock, the jobs in these states, and the id reached, '' at the end.

local states, most, key = {}, tonumber(ARGV[5]), P .. ARGV[6]
for number = 7, #ARGV do
    states[ARGV[number]] = true
end
local letters = states['letter'] and redis.call('EXISTS', P .. 'letters') == 1
local ids
if ARGV[2] == 'newest' then
    ids = redis.call('ZREVRANGEBYLEX', key, ARGV[4], ARGV[3], 'LIMIT', 0, most)
else
    ids = redis.call('ZRANGEBYLEX', key, ARGV[3], ARGV[4], 'LIMIT', 0, most)
end
local found, kept, bodies = {}, {}, {}
if #ids > 0 then
    local lives, pasts = several('HMGET', P .. 'live', ids), several('HMGET', P .. 'past', ids)
    for index, id in ipairs(ids) do
        local state = lives[index] or pasts[index]
        local name = state and string.match(state, '^[^\31]*\31([^\31]*)')
        if state and (#ARGV < 7 or states[name] or (letters and is_letter(fields(state)))) then
            local number = #found + 1
            found[number], kept[number], bodies[number] = id, state, redis.call('HGET', P .. 'body', id)
        end
    end
end
return { whole(now), as_texts(found, kept, bodies), #ids == most and ids[#ids] or '' }

--- sizes

-- Returns the numbers of live jobs: all, ready, scheduled, running. ARGV: offset.

local ready, scheduled = 0, 0
for _, list in ipairs(redis.call('ZRANGE', P .. 'ready', 0, -1)) do
    local due = redis.call('ZCOUNT', P .. 'ready:' .. list, '-inf', whole(now))
    ready = ready + due
    scheduled = scheduled + redis.call('ZCARD', P .. 'ready:' .. list) - due
end
return { redis.call('HLEN', P .. 'live'), ready, scheduled, redis.call('ZCARD', P .. 'running') }

--- items

-- Returns the numbers of items of live chunks, beyond one each, in the order of `sizes`. ARGV: offset.

local all, ready, scheduled, running = 0, 0, 0, 0
for _, state in ipairs(several('HMGET', P .. 'live', redis.call('SMEMBERS', P .. 'chunks'))) do
    local job = fields(state)
    local more = items_of(job[ITEMS]) - 1
    all = all + more
    if job[STATE] == 'running' then
        running = running + more
    elseif job[STATE] == 'queued' and tonumber(job[RUN_AT]) <= now then
        ready = ready + more
    elseif job[STATE] == 'queued' then
        scheduled = scheduled + more
    end
end
return { all, ready, scheduled, running }

--- depths

-- Returns lanes and their numbers of queued jobs, alternating. ARGV: offset, the count to stop at, 'all' or '', then
-- the lanes.

local most = tonumber(ARGV[2])
local depths = {}
local function count(lists)
    for _, list in ipairs(lists) do
        local lane = tonumber(string.sub(list, 1, 5))
        if (depths[lane] or 0) < most then
            depths[lane] = math.min(most, (depths[lane] or 0) + redis.call('ZCARD', P .. 'ready:' .. list))
        end
    end
end

if ARGV[3] == 'all' then
    count(redis.call('ZRANGE', P .. 'ready', 0, -1))
end
for number = 4, #ARGV do
    local lane = string.format('%05d', ARGV[number])
    count(redis.call('ZRANGEBYLEX', P .. 'ready', '[' .. lane .. ':', '(' .. lane .. ';'))
end
local answer = {}
for lane, depth in pairs(depths) do
    answer[#answer + 1] = lane
    answer[#answer + 1] = depth
end
return answer

--- heads

-- Returns the clock, and for each ready list its name and when its first job is due. ARGV: offset.

local found = { whole(now) }
for _, list in ipairs(redis.call('ZRANGE', P .. 'ready', 0, -1)) do
    local first = redis.call('ZRANGE', P .. 'ready:' .. list, 0, 0, 'WITHSCORES')[2]
    if first then
        found[#found + 1] = list
        found[#found + 1] = whole(tonumber(first))
    end
end
return found

--- next_due

-- Returns the earliest run_at of a queued job or end of an expired lease, or ''. ARGV: offset.

local expired = redis.call('ZRANGEBYSCORE', P .. 'leases', '-inf', whole(now), 'WITHSCORES', 'LIMIT', 0, 1)[2]
local earliest = expired and whole(tonumber(expired)) or ''
for _, list in ipairs(redis.call('ZRANGE', P .. 'ready', 0, -1)) do
    local first = redis.call('ZRANGE', P .. 'ready:' .. list, 0, 0, 'WITHSCORES')[2]
    if first and (earliest == '' or tonumber(first) < tonumber(earliest)) then
        earliest = whole(tonumber(first))
    end
end
return earliest
