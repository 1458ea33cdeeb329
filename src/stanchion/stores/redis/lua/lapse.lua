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
