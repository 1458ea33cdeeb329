-- Records the jobs that workers have begun, or their times. KEYS[1] is the hash of these lists. ARGV: offset, then for
-- each worker its id and its list, or '' for a release that does not report it.

for index = 2, #ARGV, 2 do
    redis.call('HDEL', P, ARGV[index]) -- needs no memory; later commands of the script are then not refused
    if ARGV[index + 1] ~= '' then
        redis.call('HSET', P, ARGV[index], ARGV[index + 1])
    end
end
