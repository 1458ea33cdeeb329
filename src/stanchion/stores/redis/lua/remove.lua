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
