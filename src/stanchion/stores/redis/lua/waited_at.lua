-- Returns the names for which jobs wait, in order. ARGV: offset, the name to start after or '', the number at most.

local slots, from = {}, ARGV[2] == '' and '-' or '(' .. ARGV[2] .. ' '
while #slots < tonumber(ARGV[3]) do
    local first = redis.call('ZRANGEBYLEX', P .. 'waits', from, '+', 'LIMIT', 0, 1)[1]
    if not first then
        break
    end
    slots[#slots + 1] = string.match(first, '^[^\31]*')
    from = '[' .. slots[#slots] .. ' '
end
return slots
