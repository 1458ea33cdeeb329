--- purge

-- Deletes finished jobs. ARGV: offset, the age in seconds or '' for the queue's own, the number at most. Returns the
-- number deleted.

local age = ARGV[2]
if age == '' then
    age = redis.call('HGET', P .. 'settings', 'history_ttl') or 604800
end
local newest = now - math.floor(tonumber(age) * 1000000)
local ids = redis.call('ZRANGEBYSCORE', P .. 'ended', '-inf', whole(newest), 'LIMIT', 0, ARGV[3])
if #ids > 0 then
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
return #ids
