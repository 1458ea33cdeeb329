-- Returns the attempts of a write, each with its number of staged jobs and its flag in `attempts`, alternating; keeps
-- them for another day. KEYS[1] is the prefix of its keys. ARGV: offset.

local answer = {}
local attempts = redis.call('HGETALL', P .. 'attempts')
for number = 1, #attempts, 2 do
    answer[#answer + 1] = attempts[number]
    local prepared = redis.call('HGET', P .. 'numbers', attempts[number]) or 0
    answer[#answer + 1] = redis.call('SCARD', P .. 'ids:' .. attempts[number]) + prepared
    answer[#answer + 1] = attempts[number + 1]
end
if #attempts > 0 then
    redis.call('SET', P .. 'used_at', whole(now))
end
return answer
