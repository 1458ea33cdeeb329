-- Returns the numbers of live jobs: all, ready, scheduled, running. ARGV: offset.

local ready, scheduled = 0, 0
for _, list in ipairs(redis.call('ZRANGE', P .. 'ready', 0, -1)) do
    local due = redis.call('ZCOUNT', P .. 'ready:' .. list, '-inf', whole(now))
    ready = ready + due
    scheduled = scheduled + redis.call('ZCARD', P .. 'ready:' .. list) - due
end
return { redis.call('HLEN', P .. 'live'), ready, scheduled, redis.call('ZCARD', P .. 'running') }
