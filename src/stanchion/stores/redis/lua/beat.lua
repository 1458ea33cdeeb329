-- Records that workers are alive. KEYS[1] is the hash of workers. ARGV: offset, then for each worker its id and its
-- description. Returns the clock and all workers as stored: started at, last seen at, description.

for index = 2, #ARGV, 2 do
    local known = redis.call('HGET', P, ARGV[index])
    redis.call('HDEL', P, '') -- needs no memory; later commands of the script are then not refused
    local started = known and string.match(known, '^[^\31]*') or whole(now)
    redis.call('HSET', P, ARGV[index], table.concat({ started, whole(now), ARGV[index + 1] }, US))
end
return { whole(now), redis.call('HVALS', P) }
