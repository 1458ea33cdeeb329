-- Deletes a queue with all that is in it, unless anything has happened in it since its use was noted, or it is in use.
-- ARGV: offset, the events and the moment that were noted, events since then that don't count, 1 where it goes with its
-- live jobs. Returns 1 when it was deleted, otherwise 0.

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
