-- Records the use of a queue that expires, unless it is gone. ARGV: offset, its number of events so far, and the time.

if redis.call('HEXISTS', P .. 'settings', 'expires') == 1 then
    never_refused() -- what it notes came before the TTL, if there is one
    redis.call('HSET', P .. 'settings', 'active_events', ARGV[2], 'active_at', ARGV[3])
end
