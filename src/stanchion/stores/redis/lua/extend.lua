-- Assigns indexes to further members of a flow node. KEYS[1] is the prefix of its keys. ARGV: offset, the id of the
-- first member, their number, and all of them as one text. Returns the first index, also of a repeat, and 1 while the
-- members are still to be stored; nothing if the node is closed or missing.

local batch, count = ARGV[2], tonumber(ARGV[3])
local known = redis.call('HGET', P .. 'adding', batch)
if known then
    local first, jobs = string.match(known, '^([^\31]*)\31(.*)$')
    return { tonumber(first), jobs ~= '' and 1 or 0 }
end
local size, closed = unpack(redis.call('HMGET', P .. 'node', 'size', 'closed'))
if not size or closed == '1' then
    return {}
end
redis.call('HSET', P .. 'adding', batch, size .. US .. ARGV[4])
redis.call('HINCRBY', P .. 'node', 'size', count)
return { tonumber(size), 1 }
