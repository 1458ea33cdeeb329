-- Records which jobs of workers have begun. KEYS[1] is the hash of these lists. ARGV: offset, then for each worker its
-- id and its list, or '' for one that does not say.

for index = 2, #ARGV, 2 do
    redis.call('HDEL', P, ARGV[index]) -- needs no memory: what follows is not refused
    if ARGV[index + 1] ~= '' then
        redis.call('HSET', P, ARGV[index], ARGV[index + 1])
    end
end
