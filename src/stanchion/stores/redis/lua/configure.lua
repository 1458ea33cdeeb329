-- Changes settings and returns all of them. ARGV: offset, then names and values alternating; '' is none.

begin_always()
if #ARGV > 1 then
    redis.call('HSET', P .. 'settings', unpack(ARGV, 2))
    redis.call('SADD', P .. 'shapes', '1') -- with other lanes, the shape may be another
end
redis.call('HSETNX', P .. 'settings', 'made_at', whole(now))
signal(P)
return redis.call('HGETALL', P .. 'settings')
