-- Walks along the ids of a queue. ARGV: offset, 'newest' from the highest id down or 'id' from the lowest up, the lower
-- and the upper bound as for ZRANGEBYLEX, the number of ids to read, then the states wanted, none for all; `letter`
-- stands for dead letters.
--
-- Returns the clock, the jobs in these states, and the id reached, '' at the end.

local states, most = {}, tonumber(ARGV[5])
for number = 6, #ARGV do
    states[ARGV[number]] = true
end
local letters = states['letter'] and redis.call('HEXISTS', P .. 'settings', 'has_dead_letters') == 1
local ids
if ARGV[2] == 'newest' then
    ids = redis.call('ZREVRANGEBYLEX', P .. 'ids', ARGV[4], ARGV[3], 'LIMIT', 0, most)
else
    ids = redis.call('ZRANGEBYLEX', P .. 'ids', ARGV[3], ARGV[4], 'LIMIT', 0, most)
end
local found, kept, bodies = {}, {}, {}
if #ids > 0 then
    local lives, pasts = several('HMGET', P .. 'live', ids), several('HMGET', P .. 'past', ids)
    for index, id in ipairs(ids) do
        local state = lives[index] or pasts[index]
        local name = state and string.match(state, '^[^\31]*\31([^\31]*)')
        local body = nil
        if letters and (name == 'queued' or name == 'waiting') and not states[name] then
            body = redis.call('HGET', P .. 'body', id)
        end
        if state and (#ARGV < 6 or states[name] or (body and has_letter(body, id))) then
            local number = #found + 1
            found[number], kept[number], bodies[number] = id, state, body or redis.call('HGET', P .. 'body', id)
        end
    end
end
return { whole(now), as_texts(found, kept, bodies), #ids == most and ids[#ids] or '' }
