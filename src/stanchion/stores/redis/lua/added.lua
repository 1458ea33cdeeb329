-- Records that members of a flow node are stored. KEYS[1] is the prefix of its keys. ARGV: offset, the id of the first
-- member.

local known = redis.call('HGET', P .. 'adding', ARGV[2])
if known then
    redis.call('HSET', P .. 'adding', ARGV[2], string.match(known, '^[^\31]*\31'))
end
