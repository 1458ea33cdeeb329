-- Versioned values, and names by time.

--- compare_and_set

-- Writes or deletes a value if its version is still the one read. KEYS[1] is the hash of the values of one kind: name
-- -> version and text. ARGV: offset, name, version read (0: absent), 1 to write or 0 to delete, text. Returns 1 if that
-- was done; otherwise 0 and the stored value, '' for none.

local known = redis.call('HGET', P, ARGV[2]) or ''
local version = known == '' and '0' or string.match(known, '^[^\31]*')
if version ~= ARGV[3] then
    return { 0, known }
end
if ARGV[4] == '1' then
    redis.call('HSET', P, ARGV[2], whole(tonumber(version) + 1) .. US .. ARGV[5])
else
    redis.call('HDEL', P, ARGV[2])
end
return { 1, '' }

--- enlist

-- Adds names with a time, even if the server is out of memory. KEYS[1] is a zset of names by time. ARGV: offset, the
-- time or '' for now, 1 to update present names only or '', names.

redis.call('ZREM', P, '') -- needs no memory; later commands of the script are then not refused
for number = 4, #ARGV do
    if ARGV[3] == '' or redis.call('ZSCORE', P, ARGV[number]) then
        redis.call('ZADD', P, ARGV[2] == '' and whole(now) or ARGV[2], ARGV[number])
    end
end

--- unlist

-- Removes names that were last listed before a given time. KEYS[1] is a zset of names by time. ARGV: offset, the time,
-- names.

for number = 3, #ARGV do
    local listed_at = redis.call('ZSCORE', P, ARGV[number])
    if listed_at and tonumber(listed_at) < tonumber(ARGV[2]) then
        redis.call('ZREM', P, ARGV[number])
    end
end
