-- Records that a worker is alive. KEYS[1] is the hash of workers. ARGV: skew, worker, its description.
-- Returns the clock and all workers as stored: started at, last seen at, description.

local known = redis.call('HGET', P, ARGV[2])
redis.call('HDEL', P, '') -- needs no memory: what follows is not refused
local started = known and string.match(known, '^[^\31]*') or whole(now)
redis.call('HSET', P, ARGV[2], table.concat({ started, whole(now), ARGV[3] }, US))
return { whole(now), redis.call('HVALS', P) }
