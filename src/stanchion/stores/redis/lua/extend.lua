-- Gives places to further members of a part of a flow. KEYS[1] is the prefix of its keys. ARGV: offset, the first of
-- them, how many they are, and all of them as one text. Returns the first place, also when they have got theirs
-- already, and 1 while they are to be stored; nothing when it is closed, or not there.

local mark, count = ARGV[2], tonumber(ARGV[3])
local known = redis.call('HGET', P .. 'adding', mark)
if known then
    local first, jobs = string.match(known, '^([^\31]*)\31(.*)$')
    return { tonumber(first), jobs ~= '' and 1 or 0 }
end
local size, closed = unpack(redis.call('HMGET', P .. 'node', 'size', 'closed'))
if not size or closed == '1' then
    return {}
end
redis.call('HSET', P .. 'adding', mark, size .. US .. ARGV[4])
redis.call('HINCRBY', P .. 'node', 'size', count)
return { tonumber(size), 1 }
