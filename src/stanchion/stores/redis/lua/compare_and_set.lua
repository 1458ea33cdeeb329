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
