-- Takes starts from the bucket of a rate, or gives them back: that of throttle.py. KEYS[1] is its hash. ARGV: skew,
-- starts per second, how many to take, or less than none to give back.
--
-- Returns for each that was to be taken '' or, where there was none, when to ask for it again.

local rate, starts = tonumber(ARGV[2]), tonumber(ARGV[3])
local tokens, filled_at, promised = unpack(redis.call('HMGET', P, 'tokens', 'filled_at', 'promised'))
local passed = math.max(0, now - tonumber(filled_at or 0)) / 1000000
local capacity = math.max(1, rate * 0.1)
tokens, promised = math.min(capacity, tonumber(tokens or 0) + passed * rate), tonumber(promised or 0)

local answers = {}
for number = 1, starts do
    if math.floor(tokens + 0.000001) >= 1 then
        tokens = tokens - 1
        answers[number] = ''
    else
        local soon = now + math.floor(math.max(0, (1 - tokens) / rate) * 1000000)
        promised = math.max(soon, promised + math.floor(1000000 / rate))
        answers[number] = whole(promised)
    end
end
if starts < 0 then
    tokens = tokens - starts
end

redis.call('HDEL', P, '') -- needs no memory: what follows is not refused
redis.call('HSET', P, 'tokens', string.format('%.17g', tokens), 'filled_at', whole(now), 'promised', whole(promised))
-- A bucket that is not there is full, and has promised nothing: so it may go once it is.
local idle = math.max((capacity - tokens) / rate, (promised - now) / 1000000 + 1 / rate)
redis.call('PEXPIRE', P, math.ceil(math.min(idle, 1e9) * 1000) + 1000)
return answers
