-- Queues: their settings, their use, and their removal.

--- configure

-- Changes settings and returns all of them. ARGV: offset, then names and values alternating; '' is none.

begin_always()
if #ARGV > 1 then
    redis.call('HSET', P .. 'settings', unpack(ARGV, 2))
    redis.call('SADD', P .. 'shapes', '1') -- with other lanes, the shape may be another
end
redis.call('HSETNX', P .. 'settings', 'made_at', whole(now))
signal(P)
return redis.call('HGETALL', P .. 'settings')

--- use

-- Records the use of a queue that expires, unless it is gone. ARGV: offset, its number of events so far, and the time.

if redis.call('HEXISTS', P .. 'settings', 'expires') == 1 then
    never_refused() -- what it notes came before the TTL, if there is one
    redis.call('HSET', P .. 'settings', 'active_events', ARGV[2], 'active_at', ARGV[3])
end

--- lapse

-- Gives all keys of a queue that expires one TTL if it has no live jobs, so that they go even if no process is left to
-- remove them. Whatever comes to the queue ends the TTL: see `begin`. ARGV: offset. Returns 1 if the keys have a TTL.

local expires, lapses_at = unpack(redis.call('HMGET', P .. 'settings', 'expires', 'lapses_at'))
if not expires or expires == '' then
    return 0
elseif lapses_at and lapses_at ~= '' then
    return 1
end
if redis.call('HLEN', P .. 'live') + redis.call('HLEN', P .. 'outbox') + redis.call('HLEN', P .. 'leaving') > 0 then
    return 0
end
-- A user without the right to end a TTL gives none: `moving` is always missing.
for _, try in ipairs({ { 'PERSIST', P .. 'moving' }, { 'PEXPIREAT', P .. 'moving', 1 } }) do
    if type(redis.pcall(unpack(try))) == 'table' then
        return 0
    end
end
never_refused()
-- The server's own clock, whatever the offset; 2^52 is as far as both Lua and the server count.
local at = whole(math.min(math.floor(time[1] * 1000 + time[2] / 1000 + tonumber(expires) * 1000) + 1, 2 ^ 52))
redis.call('ZADD', P .. 'lapsing', 0, '')
redis.call('HSET', P .. 'settings', 'lapses_at', at)
for _, key in ipairs(keys_of(P)) do
    redis.call('PEXPIREAT', key, at)
end
return 1

--- reshape

-- Corrects the shape of the queue: resets it if few jobs are live and none of them needs it, and adds what is missing.
-- ARGV: offset, the number of jobs that counts as few.

local lanes, uses_lanes, slots = unpack(redis.call('HMGET', P .. 'settings', 'lanes', 'uses_lanes', 'uses_slots'))
local in_lanes, use_slots = uses_lanes == '1', slots == '1'
local several_lanes = tonumber(lanes or 1) > 1

if (use_slots or (in_lanes and not several_lanes)) and redis.call('HLEN', P .. 'live') <= tonumber(ARGV[2]) then
    in_lanes, use_slots = in_lanes and several_lanes, false
    for _, state in ipairs(redis.call('HVALS', P .. 'live')) do
        local job = fields(state)
        in_lanes, use_slots = in_lanes or job[LANE] ~= UNLANED, use_slots or uses_slots(job[BOUND])
    end
    if uses_lanes and not in_lanes then
        redis.call('HDEL', P .. 'settings', 'uses_lanes')
    end
    if slots and not use_slots then
        redis.call('HDEL', P .. 'settings', 'uses_slots')
    end
end

if not use_slots and (several_lanes or not in_lanes) then
    redis.call('UNLINK', P .. 'shapes')
end

-- The last ready list belongs to the highest lane.
local last = redis.call('ZRANGE', P .. 'ready', -1, -1)[1]
local stray = last ~= nil and string.sub(last, 1, 5) ~= NO_LANE
local keyed = redis.call('EXISTS', P .. 'orders') == 1
if (stray and not in_lanes) or (keyed and not use_slots) then
    begin_always()
    shape(P, stray, keyed)
end

--- forget_batches

-- Forgets batches without reserved jobs. ARGV: offset, the time before which they must have been reserved.

for _, token in ipairs(redis.call('ZRANGEBYSCORE', P .. 'batches', '-inf', '(' .. ARGV[2], 'LIMIT', 0, 100)) do
    local holds = false
    for _, id in ipairs(redis.call('SMEMBERS', P .. 'batch:' .. token)) do
        local state = redis.call('HGET', P .. 'live', id)
        holds = holds or (state and is_held(fields(state), token))
    end
    if holds then
        redis.call('ZADD', P .. 'batches', whole(now), token)
    else
        redis.call('UNLINK', P .. 'batch:' .. token)
        redis.call('ZREM', P .. 'batches', token)
    end
end

--- remove

-- Deletes a queue with all its contents, unless an event happened since its use was recorded, or it is in use. ARGV:
-- offset, the recorded events and time, later events that don't count, 1 if its live jobs expire with it. Returns 1 if
-- it was deleted, otherwise 0.

local events, at = unpack(redis.call('HMGET', P .. 'settings', 'active_events', 'active_at'))
local live = ARGV[5] == '1' and 0 or redis.call('HLEN', P .. 'live')
local owed = redis.call('HLEN', P .. 'outbox') + redis.call('HLEN', P .. 'leaving')
local happened = 0
for _, number in ipairs(redis.call('HVALS', P .. 'counts')) do
    happened = happened + tonumber(number)
end
if events ~= ARGV[2] or at ~= ARGV[3] or live + owed > 0 or happened ~= tonumber(ARGV[2]) + tonumber(ARGV[4]) then
    return 0
end
delete_queue()
return 1

--- delete

-- Deletes a queue with all its contents; returns the number of live jobs. ARGV: offset.

local jobs = redis.call('HLEN', P .. 'live')
delete_queue()
return jobs
