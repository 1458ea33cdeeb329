-- Notes names at a moment, be the server out of memory. KEYS[1] is a zset of names by when they were noted. ARGV:
-- offset, the moment or '' for now, 1 to note only those that are there already or '', names.

redis.call('ZREM', P, '') -- needs no memory: what follows is not refused
for number = 4, #ARGV do
    if ARGV[3] == '' or redis.call('ZSCORE', P, ARGV[number]) then
        redis.call('ZADD', P, ARGV[2] == '' and whole(now) or ARGV[2], ARGV[number])
    end
end
