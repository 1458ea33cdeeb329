-- Stores jobs of another store unchanged. ARGV: offset, then for each: id, state, and the body, which past waits may
-- follow.
--
-- Returns for each: 1 it is here, 0 a live job has its key; and last, 1 if the queue was missing.

begin()
local answers = {}
for first = 2, #ARGV, 3 do
    local id, state, body = unpack(ARGV, first, first + 2)
    local job = fields(state)
    local holder = job[KEY] ~= '' and job[FINISHED] == '' and redis.call('HGET', P .. 'keys', job[KEY])
    local known = redis.call('HEXISTS', P .. 'live', id) + redis.call('HEXISTS', P .. 'past', id) > 0
        or redis.call('ZSCORE', P .. 'gone', id)
    if known or not holder then
        answers[#answers + 1] = 1
        if not known then
            put(P, id, state, job, body)
        end
    else
        answers[#answers + 1] = 0
    end
end
answers[#answers + 1] = redis.call('HSETNX', P .. 'settings', 'made_at', whole(now))
return answers
