-- Semaphores and order keys, and the jobs that wait for them.

--- take_slot

-- Takes a slot of a semaphore, or an order key, unless it is held already. KEYS[1] is the prefix of its keys:
--
--   holders   set     job and hold token of each held slot
--   capacity  string  number of slots; one if not set
--   queues    set     queues in which jobs wait, or have waited, for it
--
-- ARGV: offset, job and hold token as one text. Returns 1 if it is held, otherwise 0.

begin_always()
local holders = P .. 'holders'
if redis.call('SISMEMBER', holders, ARGV[2]) == 1 then
    return 1
end
if redis.call('SCARD', holders) >= tonumber(redis.call('GET', P .. 'capacity') or 1) then
    return 0
end
redis.call('SADD', holders, ARGV[2])
return 1

--- park

-- Parks due jobs that wait first for one of some full slots: a bounded number at the front of the queue, up to one that
-- does not wait. ARGV: offset, start of the wait, the hold token, the first and the last lane or '' for all, 1 if no
-- other jobs are due, slots. Returns the number of jobs parked, and 1 if there may be more. In a queue with lanes it
-- parks none while others are due, because the next lane may be theirs.

local PARKED, CHUNK = 2000, 500
local since, hold_token, alone, full = ARGV[2], ARGV[3], ARGV[6] == '1', full_slots(7)
local first, last = tonumber(ARGV[4]) or -1, tonumber(ARGV[5]) or 99999
-- All fields but the number of changes, state, slots held, hold tokens, waits_for, waits_since and promised.
local PARTS = '^([^\31]*)\31[^\31]*\31(.*)' .. string.rep('\31[^\31]*', 6) .. '\31([^\31]*\31([^\31]*))$'

local lists = redis.call('ZRANGE', P .. 'ready', 0, -1)
if redis.call('HGET', P .. 'settings', 'ordered') == '1' then
    return { 0, 0 } -- only its head asks for slots
end
if redis.call('HGET', P .. 'settings', 'uses_lanes') == '1' and not alone then
    return { 0, 1 }
end

-- Parks jobs at the front of a list; returns their number.
local function park(list, some)
    local live, waits, gone = {}, {}, {}
    for index, state in ipairs(several('HMGET', P .. 'live', some)) do
        if not waits_first(state, full) then
            break
        end
        local id = some[index]
        local rev, rest, tail, slot = string.match(state, PARTS)
        local of_key = string.sub(slot, 1, 1) == 'o'
        local order_hold, slots_hold = of_key and hold_token or '', of_key and '' or hold_token
        gone[index], waits[2 * index - 1], waits[2 * index] = id, 0, entry(slot, since, id)
        live[2 * index - 1] = id
        live[2 * index] = table.concat({ rev + 1, 'waiting', rest, '', order_hold, slots_hold, slot, since, '', tail }, US)
    end
    if #gone > 0 then
        each('HSET', P .. 'live', live, 2)
        each('ZADD', P .. 'waits', waits, 2)
        take_from_list(P, list, gone)
    end
    return #gone
end

never_refused()
local parked = 0
for _, list in ipairs(lists) do
    local lane, all = tonumber(string.sub(list, 1, 5)), true
    while lane >= first and lane <= last and all do
        local some = redis.call('ZRANGEBYSCORE', P .. 'ready:' .. list, '-inf', whole(now), 'LIMIT', 0, CHUNK)
        local gone = park(list, some)
        parked = parked + gone
        all = #some > 0 and gone == #some
        if gone < #some and not alone then
            return { parked, 0 }
        elseif parked >= PARKED then
            return { parked, 1 }
        end
    end
end
return { parked, 0 }

--- first

-- Returns the clock, and the first jobs under a name. ARGV: offset, 'orders' or 'waits', the name, the number at most.

local found = redis.call('ZRANGEBYLEX', P .. ARGV[2], '[' .. ARGV[3] .. US, '(' .. ARGV[3] .. ' ', 'LIMIT', 0, ARGV[4])
for index, one in ipairs(found) do
    found[index] = string.match(one, '[^\31]*$')
end
return { whole(now), as_texts(found, several('HMGET', P .. 'live', found), several('HMGET', P .. 'body', found)) }

--- waited_at

-- Returns the names for which jobs wait, in order. ARGV: offset, the name to start after or '', the number at most.

local slots, from = {}, ARGV[2] == '' and '-' or '(' .. ARGV[2] .. ' '
while #slots < tonumber(ARGV[3]) do
    local first = redis.call('ZRANGEBYLEX', P .. 'waits', from, '+', 'LIMIT', 0, 1)[1]
    if not first then
        break
    end
    slots[#slots + 1] = string.match(first, '^[^\31]*')
    from = '[' .. slots[#slots] .. ' '
end
return slots
