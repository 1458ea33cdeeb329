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
