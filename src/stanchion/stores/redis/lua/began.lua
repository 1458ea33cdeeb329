-- Records which jobs of a worker have begun. KEYS[1] is the hash of these lists. ARGV: skew, worker, its list, or '' for a
-- worker that does not say.

redis.call('HDEL', P, ARGV[2]) -- needs no memory: what follows is not refused
if ARGV[3] ~= '' then
    redis.call('HSET', P, ARGV[2], ARGV[3])
end
