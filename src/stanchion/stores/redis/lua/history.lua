--- purge

-- Deletes finished jobs. ARGV: offset, the age in seconds or '' for the settings of the queue, the number at most.
-- Returns the number deleted; by the settings, the number at most if there may be more.
--
-- The settings have a place in `ended` for each state that is kept for less time: all jobs before it have been seen. A
-- place is a time, and the number of jobs of that time that stay. Late commits and copied jobs may come before it, so a
-- search starts over once in an hour.

local most = tonumber(ARGV[3])

local function ended_by(age)
    return whole(now - math.floor(tonumber(age) * 1000000))
end

local function purge(ids)
    if #ids == 0 then
        return
    end
    if redis.call('EXISTS', P .. 'ended_keys') == 1 then
        for index, state in pairs(several('HMGET', P .. 'past', ids)) do
            if state then
                forget_key(ids[index], fields(state)[KEY])
            end
        end
    end
    each('ZREM', P .. 'ended', ids, 1)
    each('HDEL', P .. 'past', ids, 1)
    each('HDEL', P .. 'body', ids, 1)
    each('HDEL', P .. 'past_waits', ids, 1)
    each('ZREM', P .. 'ids', ids, 1)
    each('ZREM', P .. 'letters', ids, 1)
end

local function older_than(age)
    local ids = redis.call('ZRANGEBYSCORE', P .. 'ended', '-inf', ended_by(age), 'LIMIT', 0, most)
    purge(ids)
    return #ids
end

-- Deletes the jobs in this state among the next ones that ended that long ago; returns the number looked at.
local function in_state(state, age)
    local place = 'walked_' .. state
    local after, stay = string.match(redis.call('HGET', P .. 'settings', place) or '', '^(%d+) (%d+)$')
    after, stay = after or '0', tonumber(stay or 0)
    local found = redis.call(
        'ZRANGEBYSCORE', P .. 'ended', after, ended_by(age), 'WITHSCORES', 'LIMIT', stay, most
    )
    local ids, ends, old = {}, {}, {}
    for index = 1, #found, 2 do
        ids[#ids + 1], ends[#ends + 1] = found[index], whole(tonumber(found[index + 1]))
    end
    local states = #ids > 0 and several('HMGET', P .. 'past', ids) or {}
    for index, id in ipairs(ids) do
        if ends[index] ~= after then
            after, stay = ends[index], 0
        end
        if states[index] and fields(states[index])[STATE] == state then
            old[#old + 1] = id
        else
            stay = stay + 1
        end
    end
    purge(old)
    if #ids > 0 then
        never_refused()
        redis.call('HSET', P .. 'settings', place, after .. ' ' .. whole(stay))
    end
    return #ids
end

if ARGV[2] ~= '' then
    return older_than(ARGV[2])
end
local longest, history_max, walked_at =
    unpack(redis.call('HMGET', P .. 'settings', 'history_ttl', 'history_max', 'walked_at'))
longest = longest or '604800'
local seen = older_than(longest)
for _, state in ipairs({ 'done', 'dead', 'cancelled' }) do
    local age = redis.call('HGET', P .. 'settings', 'history_ttl_' .. state)
    if age and age ~= '' and tonumber(age) < tonumber(longest) then
        if math.abs(now - tonumber(walked_at or 0)) > 3600000000 then
            never_refused()
            redis.call('HDEL', P .. 'settings', 'walked_done', 'walked_dead', 'walked_cancelled')
            redis.call('HSET', P .. 'settings', 'walked_at', whole(now))
            walked_at = now
        end
        seen = math.max(seen, in_state(state, age))
    end
end
if history_max and history_max ~= '' then
    local beyond = math.min(redis.call('ZCARD', P .. 'ended') - tonumber(history_max), most)
    if beyond > 0 then
        purge(redis.call('ZRANGE', P .. 'ended', 0, beyond - 1))
        seen = math.max(seen, beyond)
    end
end
return seen
