-- The buckets of rates.

--- bucket

-- The rule of rate_limit.py, which explains it.

local function saved_up(rate)
    return math.max(1, rate * 0.1)
end

local function tolerated(rate)
    return math.max(saved_up(rate), 1 + rate * 0.05)
end

-- Returns the present tokens of a bucket; `awaited`: jobs were promised future times.
local function refilled(rate, tokens, filled_at, awaited)
    if tonumber(filled_at or 0) > now + 10000000 then -- see set_back.py
        return saved_up(rate)
    end
    local filled = tonumber(tokens or 0) + math.max(0, now - tonumber(filled_at or 0)) / 1000000 * rate
    local late = filled <= tolerated(rate) or awaited
    return math.min(filled, late and tolerated(rate) or saved_up(rate))
end

-- Returns how many jobs may start, none until the items of a chunk are paid for; the millionth absorbs rounding.
local function starts_in(tokens)
    return math.floor(tokens + 0.000001)
end

-- Returns the seconds until one more job may start.
local function next_in(rate, tokens)
    return math.max(0, (1 - tokens) / rate)
end

--- spend

-- Takes starts from the bucket of a rate. KEYS[1] is its hash. ARGV: offset, starts per second, and for each asking job
-- the time promised to it, 'again' if promised for at least the second time, or ''.
--
-- Returns for each '', or the time at which to ask again if there was no start.

local rate = tonumber(ARGV[2])
local tokens, filled_at, promised, promised_again = unpack(redis.call(
    'HMGET', P, 'tokens', 'filled_at', 'promised', 'promised_again'
))
promised, promised_again = tonumber(promised or 0), tonumber(promised_again or 0)
if tonumber(filled_at or 0) > now + 10000000 then -- see set_back.py
    promised, promised_again = 0, 0
end
local interval = math.ceil(1000000 / rate)

local function awaited()
    return math.max(promised, promised_again) > now
end

local answers = {}
for number = 3, #ARGV do
    local promise, first = ARGV[number], true
    tokens, filled_at = refilled(rate, tokens, filled_at, awaited()), now
    if promise == '' then
        first = not awaited() or tokens >= tolerated(rate)
    elseif promise ~= 'again' then
        first = tonumber(promise) > promised_again
    end
    if first and starts_in(tokens) >= 1 then
        tokens = tokens - 1
        answers[number - 2] = ''
    else
        local soon, due = now + math.ceil(next_in(rate, tokens) * 1000000), nil
        if promise == 'again' and next_in(rate, tokens) < math.min(0.05, 0.5 / rate) then
            due = soon
        elseif promise ~= '' then
            promised_again = math.max(soon, promised_again + interval)
            due = promised_again
        else
            promised = math.max(soon, (promised > now and promised or math.max(promised, promised_again)) + interval)
            due = promised
        end
        answers[number - 2] = whole(due)
    end
end

redis.call('HDEL', P, '') -- needs no memory; later commands of the script are then not refused
redis.call(
    'HSET', P, 'tokens', string.format('%.17g', tokens), 'filled_at', whole(now), 'promised', whole(promised),
    'promised_again', whole(promised_again)
)
-- A missing bucket is full, without promises; so a full one may be deleted.
local last = math.max(promised, promised_again)
local idle = math.max((saved_up(rate) - tokens) / rate, (last - now) / 1000000 + 1 / rate)
redis.call('PEXPIRE', P, math.ceil(math.min(idle, 1e9) * 1000) + 1000)
return answers
