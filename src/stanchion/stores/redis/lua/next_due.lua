-- Returns the earliest run_at of a queued job, or ''. ARGV: skew.

local earliest = ''
for _, line in ipairs(redis.call('ZRANGE', P .. 'lines', 0, -1)) do
    local first = redis.call('ZRANGE', P .. 'line:' .. line, 0, 0, 'WITHSCORES')[2]
    if first and (earliest == '' or tonumber(first) < tonumber(earliest)) then
        earliest = whole(tonumber(first))
    end
end
return earliest
