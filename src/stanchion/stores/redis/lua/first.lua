-- Returns the first jobs under a name. ARGV: offset, 'orders' or 'waits', the name, the number at most.

local found = redis.call('ZRANGEBYLEX', P .. ARGV[2], '[' .. ARGV[3] .. US, '(' .. ARGV[3] .. ' ', 'LIMIT', 0, ARGV[4])
local rows = {}
for index, one in ipairs(found) do
    local id = string.match(one, '[^\31]*$')
    rows[index] = id .. US .. redis.call('HGET', P .. 'live', id) .. US .. redis.call('HGET', P .. 'body', id)
end
return table.concat(rows, RS)
