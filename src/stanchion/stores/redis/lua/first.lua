-- Returns the clock, and the first jobs under a name. ARGV: offset, 'orders' or 'waits', the name, the number at most.

local found = redis.call('ZRANGEBYLEX', P .. ARGV[2], '[' .. ARGV[3] .. US, '(' .. ARGV[3] .. ' ', 'LIMIT', 0, ARGV[4])
for index, one in ipairs(found) do
    found[index] = string.match(one, '[^\31]*$')
end
return { whole(now), as_texts(found, several('HMGET', P .. 'live', found), several('HMGET', P .. 'body', found)) }
