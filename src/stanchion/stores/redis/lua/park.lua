-- Parks due jobs that wait first for one of some slots, which are full: those at the front of the queue up to one that
-- does not, so many at most. ARGV: offset, since when they wait, the token under which they will hold, the first and
-- the last lane or '' for all, 1 when no other jobs are due, slots. Returns how many were parked, and 1 where there may
-- be more. In a queue of lanes it parks none while others are due: it may be their turn.

local PARKED, CHUNK = 2000, 500
local since, hold_token, alone, full = ARGV[2], ARGV[3], ARGV[6] == '1', full_slots(7)
local first = ARGV[4] == '' and '' or string.format('%05d', ARGV[4])
local last = ARGV[5] == '' and '99999' or string.format('%05d', ARGV[5])
-- All but the number of changes, the state, and of the slots that it holds, its hold token, what it waits for and since
-- when it waits.
local PARTS = '^([^\31]*)\31[^\31]*\31(.*)\31[^\31]*\31([^\31]*)\31[^\31]*\31[^\31]*\31([^\31]*\31([^\31]*))$'

local lists = redis.call('ZRANGE', P .. 'ready', 0, -1)
if redis.call('HGET', P .. 'settings', 'laned') == '1' and not alone then
    return { 0, 1 }
end

-- Parks some jobs at the front of a list; returns how many.
local function park(list, some)
    local live, waits, gone = {}, {}, {}
    for index, state in ipairs(several('HMGET', P .. 'live', some)) do
        if string.sub(list, 7) < '04500' or not waits_first(state, full) then
            break
        end
        local id = some[index]
        local rev, rest, own, tail, slot = string.match(state, PARTS)
        local held = own == '' and hold_token or own
        gone[index], waits[2 * index - 1], waits[2 * index] = id, 0, entry(slot, since, id)
        live[2 * index - 1] = id
        live[2 * index] = table.concat({ rev + 1, 'waiting', rest, '', held, slot, since, tail }, US)
    end
    if #gone > 0 then
        each('HSET', P .. 'live', live, 2)
        each('ZADD', P .. 'waits', waits, 2)
        take_from_list(P, list, gone)
    end
    return #gone
end

begin_always()
local parked = 0
for _, list in ipairs(lists) do
    local lane, all = string.sub(list, 1, 5), true
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
