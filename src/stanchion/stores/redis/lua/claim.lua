-- Reserves due jobs. ARGV: skew, limit, token, worker or '', lease in microseconds or '' for the queue's own, 1 to
-- look first for what the token holds already, the counter or ''.
--
-- Returns what it found: 'expired' and ids whose leases ran out, for the caller to free before it asks again; or
-- 'jobs', and the jobs; and seconds until the rate of the queue may allow more, or ''.

local limit, token, worker, lease, again, counted = tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local TAIL = '^([^\31]*)\31[^\31]*\31([^\31]*)' .. string.rep('\31[^\31]*', 6) .. '\31(.*)$'

local expired = redis.call('ZRANGEBYSCORE', P .. 'leases', '-inf', whole(now), 'LIMIT', 0, 500)
if #expired > 0 then
    return { 'expired', expired, '' }
end

local function answer(ids, states, wait)
    local bodies, rows = several('HMGET', P .. 'body', ids), {}
    for index, id in ipairs(ids) do
        rows[index] = id .. US .. states[index] .. US .. bodies[index]
    end
    return { 'jobs', table.concat(rows, RS), wait }
end

if again == '1' then
    local held, states = {}, {}
    for _, id in ipairs(redis.call('SMEMBERS', P .. 'running')) do
        local state = redis.call('HGET', P .. 'live', id)
        if fields(state)[TOKEN] == token then
            held[#held + 1] = id
            states[#states + 1] = state
        end
    end
    if #held > 0 then
        return answer(held, states, '')
    end
end

local paused, max_rate, max_running, own_lease, tokens, filled_at =
    unpack(redis.call('HMGET', P .. 'settings', 'paused', 'max_rate', 'max_running', 'lease', 'rate_tokens', 'rate_at'))
if paused == '1' then
    return { 'jobs', '', '' }
end
if max_running and max_running ~= '' then
    limit = math.min(limit, tonumber(max_running) - redis.call('SCARD', P .. 'running'))
end

-- The bucket of throttle.py: a tenth of a second's worth, at least one; a millionth is forgiven.
local rate, wait = nil, ''
if max_rate and max_rate ~= '' then
    rate = tonumber(max_rate)
    local passed = math.max(0, now - tonumber(filled_at or 0)) / 1000000
    tokens = math.min(math.max(1, rate * 0.1), tonumber(tokens or 0) + passed * rate)
    limit = math.min(limit, math.floor(tokens + 0.000001))
end

local ids = {}
if limit > 0 then
    begin()
    for _, line in ipairs(redis.call('ZRANGE', P .. 'lines', 0, -1)) do
        local due = redis.call('ZRANGEBYSCORE', P .. 'line:' .. line, '-inf', whole(now), 'LIMIT', 0, limit - #ids)
        if #due > 0 then
            shorten(P, line, due)
            for _, id in ipairs(due) do
                ids[#ids + 1] = id
            end
        end
        if #ids >= limit then
            break
        end
    end
end

local states = {}
if #ids > 0 then
    local until_when = ''
    if worker == '' then
        until_when = whole(now + (lease ~= '' and tonumber(lease) or math.floor(tonumber(own_lease or 30) * 1000000)))
    end
    local reserved = table.concat({ token, worker, until_when, whole(now), '', '' }, US) .. US
    local live, leases = {}, {}
    for index, state in ipairs(several('HMGET', P .. 'live', ids)) do
        local rev, attempts, tail = string.match(state, TAIL)
        states[index] = (rev + 1) .. US .. 'running' .. US .. (attempts + 1) .. US .. reserved .. tail
        live[2 * index - 1], live[2 * index] = ids[index], states[index]
        leases[2 * index - 1], leases[2 * index] = until_when, ids[index]
    end
    each('HSET', P .. 'live', live, 2)
    each('SADD', P .. 'running', ids, 1)
    if until_when ~= '' then
        each('ZADD', P .. 'leases', leases, 2)
    end
    if counted ~= '' then
        redis.call('HINCRBY', P .. 'counts', counted, #ids)
    end
end

if rate then
    tokens = tokens - #ids
    if #ids > 0 then
        redis.call('HSET', P .. 'settings', 'rate_tokens', string.format('%.17g', tokens), 'rate_at', whole(now))
    end
    if tokens + 0.000001 < 1 then
        wait = string.format('%.9f', math.max(0, (1 - tokens) / rate))
    end
end
return answer(ids, states, wait)
