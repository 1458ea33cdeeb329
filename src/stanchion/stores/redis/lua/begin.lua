-- Writes a value of a kind if its version is still the one read, and records that a publication has begun. KEYS[1] is
-- the prefix of `begun`, a hash of write -> publication; its braces enclose the key of the values of the kind, so that
-- both are in one cluster slot. ARGV: offset, write, publication, and of the value: name, version read (0: absent),
-- text. Returns 1 if that was done; otherwise 0, and the publication of the write that has begun before, '' for none.

local values = string.match(P, '{(.*)}:$')
local begun = redis.call('HGET', P .. 'begun', ARGV[2]) or ''
local known = redis.call('HGET', values, ARGV[4]) or ''
local version = known == '' and '0' or string.match(known, '^[^\31]*')
if begun ~= '' or version ~= ARGV[5] then
    return { 0, begun }
end
redis.call('HSET', P .. 'begun', ARGV[2], ARGV[3])
redis.call('HSET', values, ARGV[4], whole(tonumber(version) + 1) .. US .. ARGV[6])
return { 1, '' }
