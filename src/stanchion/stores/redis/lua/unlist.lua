-- Removes names that were last listed before a given time. KEYS[1] is a zset of names by time. ARGV: offset, the time,
-- names.

for number = 3, #ARGV do
    local listed_at = redis.call('ZSCORE', P, ARGV[number])
    if listed_at and tonumber(listed_at) < tonumber(ARGV[2]) then
        redis.call('ZREM', P, ARGV[number])
    end
end
