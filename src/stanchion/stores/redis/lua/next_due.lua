-- Returns the earliest run_at of a queued job, or ''. ARGV: offset.

local earliest = ''
for _, list in ipairs(redis.call('ZRANGE', P .. 'ready', 0, -1)) do
    local first = redis.call('ZRANGE', P .. 'ready:' .. list, 0, 0, 'WITHSCORES')[2]
    if first and (earliest == '' or tonumber(first) < tonumber(earliest)) then
        earliest = whole(tonumber(first))
    end
end
return earliest
