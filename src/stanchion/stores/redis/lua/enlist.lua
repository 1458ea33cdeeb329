-- Adds names with a time, even if the server is out of memory. KEYS[1] is a zset of names by time. ARGV: offset, the
-- time or '' for now, 1 to update present names only or '', names.

redis.call('ZREM', P, '') -- needs no memory; later commands of the script are then not refused
for number = 4, #ARGV do
    if ARGV[3] == '' or redis.call('ZSCORE', P, ARGV[number]) then
        redis.call('ZADD', P, ARGV[2] == '' and whole(now) or ARGV[2], ARGV[number])
    end
end
