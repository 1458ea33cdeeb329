-- Deletes jobs that are queued, waiting or finished, and as they were seen. ARGV: skew, then for each: id, the state
-- that was seen, and what its end entails: '' or a mark, and its text. Returns for each 1 where it was deleted,
-- otherwise 0.

begin_always()
local answers = {}
for first = 2, #ARGV, 4 do
    local id, seen, mark, duty = unpack(ARGV, first, first + 3)
    local state = redis.call('HGET', P .. 'live', id) or redis.call('HGET', P .. 'past', id)
    answers[#answers + 1] = state == seen and 1 or 0
    if state == seen then
        if mark ~= '' then
            redis.call('HSET', P .. 'duties', mark, duty)
        end
        drop(id, fields(state))
        forget(id)
    end
end
return answers
