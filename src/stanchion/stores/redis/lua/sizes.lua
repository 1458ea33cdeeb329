-- Returns live jobs: all, ready, scheduled, running. ARGV: skew.

local ready, scheduled = 0, 0
for _, line in ipairs(redis.call('ZRANGE', P .. 'lines', 0, -1)) do
    local due = redis.call('ZCOUNT', P .. 'line:' .. line, '-inf', whole(now))
    ready = ready + due
    scheduled = scheduled + redis.call('ZCARD', P .. 'line:' .. line) - due
end
return { redis.call('HLEN', P .. 'live'), ready, scheduled, redis.call('SCARD', P .. 'running') }
