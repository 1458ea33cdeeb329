-- Returns gates at which jobs wait, in the order of their names. ARGV: skew, the gate to begin behind or '', how many
-- at most.

local gates, from = {}, ARGV[2] == '' and '-' or '(' .. ARGV[2] .. ' '
while #gates < tonumber(ARGV[3]) do
    local first = redis.call('ZRANGEBYLEX', P .. 'waits', from, '+', 'LIMIT', 0, 1)[1]
    if not first then
        break
    end
    gates[#gates + 1] = string.match(first, '^[^\31]*')
    from = '[' .. gates[#gates] .. ' '
end
return gates
