-- Notes that members of a part of a flow are stored. KEYS[1] is the prefix of its keys. ARGV: offset, the first of
-- them.

local known = redis.call('HGET', P .. 'adding', ARGV[2])
if known then
    redis.call('HSET', P .. 'adding', ARGV[2], string.match(known, '^[^\31]*\31'))
end
