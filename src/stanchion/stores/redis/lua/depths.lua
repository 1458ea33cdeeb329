-- Returns lanes and their numbers of queued jobs, alternating. ARGV: offset, the count to stop at, 'all' or '', then
-- the lanes.

local most = tonumber(ARGV[2])
local depths = {}
local function count(lists)
    for _, list in ipairs(lists) do
        local lane = tonumber(string.sub(list, 1, 5))
        if (depths[lane] or 0) < most then
            depths[lane] = math.min(most, (depths[lane] or 0) + redis.call('ZCARD', P .. 'ready:' .. list))
        end
    end
end

if ARGV[3] == 'all' then
    count(redis.call('ZRANGE', P .. 'ready', 0, -1))
end
for number = 4, #ARGV do
    local lane = string.format('%05d', ARGV[number])
    count(redis.call('ZRANGEBYLEX', P .. 'ready', '[' .. lane .. ':', '(' .. lane .. ';'))
end
local answer = {}
for lane, depth in pairs(depths) do
    answer[#answer + 1] = lane
    answer[#answer + 1] = depth
end
return answer
