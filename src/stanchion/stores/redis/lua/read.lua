-- Returns the clock, the jobs with these ids, and the ids of those in transit to another queue. ARGV: offset, ids.

local ids = { unpack(ARGV, 2) }
local lives, pasts = several('HMGET', P .. 'live', ids), several('HMGET', P .. 'past', ids)
local bodies = several('HMGET', P .. 'body', ids)
local found, states, contents, leaving = {}, {}, {}, {}
for index, id in ipairs(ids) do
    local state = lives[index] or pasts[index]
    if state then
        found[#found + 1], states[#states + 1], contents[#contents + 1] = id, state, bodies[index]
    elseif redis.call('HEXISTS', P .. 'leaving', id) == 1 then
        leaving[#leaving + 1] = id
    end
end
return { whole(now), as_texts(found, states, contents), leaving }
