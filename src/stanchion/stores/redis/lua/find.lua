-- Walks jobs from the newest id to the oldest. ARGV: offset, the id to begin below or '', ids to look at, then the
-- states wanted, none for all; `letter` stands for dead letters.
--
-- Returns the clock, the jobs in these states, and the id reached, '' at the end.

local states = {}
for number = 4, #ARGV do
    states[ARGV[number]] = true
end
local letters = states['letter'] and redis.call('HEXISTS', P .. 'settings', 'letters') == 1
local from = ARGV[2] == '' and '+' or '(' .. ARGV[2]
local ids = redis.call('ZREVRANGEBYLEX', P .. 'ids', from, '-', 'LIMIT', 0, ARGV[3])
local rows = {}
if #ids > 0 then
    local lives, pasts = several('HMGET', P .. 'live', ids), several('HMGET', P .. 'past', ids)
    for index, id in ipairs(ids) do
        local state = lives[index] or pasts[index]
        local name = state and string.match(state, '^[^\31]*\31([^\31]*)')
        local body = nil
        if letters and (name == 'queued' or name == 'waiting') and not states[name] then
            body = redis.call('HGET', P .. 'body', id)
        end
        if state and (#ARGV < 4 or states[name] or (body and has_letter(body, id))) then
            rows[#rows + 1] = id .. US .. state .. US .. (body or redis.call('HGET', P .. 'body', id))
        end
    end
end
return { whole(now), table.concat(rows, RS), #ids == tonumber(ARGV[3]) and ids[#ids] or '' }
