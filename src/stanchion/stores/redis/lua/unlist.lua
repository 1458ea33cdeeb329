-- Forgets what was last noted before a moment. KEYS[1] is a zset of names by when they were noted. ARGV: offset, the
-- moment, names.

for number = 3, #ARGV do
    local noted_at = redis.call('ZSCORE', P, ARGV[number])
    if noted_at and tonumber(noted_at) < tonumber(ARGV[2]) then
        redis.call('ZREM', P, ARGV[number])
    end
end
