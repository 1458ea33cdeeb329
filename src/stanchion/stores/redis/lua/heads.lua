-- Returns the clock, and for each ready list its name and when its first job is due. ARGV: offset.

local found = { whole(now) }
for _, list in ipairs(redis.call('ZRANGE', P .. 'ready', 0, -1)) do
    local first = redis.call('ZRANGE', P .. 'ready:' .. list, 0, 0, 'WITHSCORES')[2]
    if first then
        found[#found + 1] = list
        found[#found + 1] = whole(tonumber(first))
    end
end
return found
