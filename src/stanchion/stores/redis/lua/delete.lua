-- Deletes a queue with all that is in it; returns the number of live jobs. ARGV: skew.

local jobs = redis.call('HLEN', P .. 'live')
for _, line in ipairs(redis.call('ZRANGE', P .. 'lines', 0, -1)) do
    redis.call('UNLINK', P .. 'line:' .. line)
end
for _, token in ipairs(redis.call('ZRANGE', P .. 'hands', 0, -1)) do
    redis.call('UNLINK', P .. 'hand:' .. token)
end
for _, name in ipairs({
    'live', 'body', 'past', 'ended', 'ids', 'keys', 'lines', 'running', 'leases', 'stopping', 'counts', 'settings',
    'signals', 'leaving', 'arrived', 'gone', 'orders', 'waits', 'duties', 'hands',
}) do
    redis.call('UNLINK', P .. name)
end
return jobs
