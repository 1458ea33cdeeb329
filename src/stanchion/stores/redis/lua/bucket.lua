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

-- Returns how many jobs may start; the millionth absorbs rounding.
local function starts_in(tokens)
    return math.floor(tokens + 0.000001)
end

-- Returns the seconds until one more job may start.
local function next_in(rate, tokens)
    return math.max(0, (1 - tokens) / rate)
end
