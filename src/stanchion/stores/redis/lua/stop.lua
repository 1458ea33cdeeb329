-- Cancels a flow node unless it has ended. KEYS[1] is the prefix of its keys. ARGV: offset.

if redis.call('HGET', P .. 'node', 'state') == 'running' then
    redis.call('HSET', P .. 'node', 'state', 'cancelled', 'finished_at', whole(now), 'followed', '1')
end
