-- Deletes jobs that are queued or finished. ARGV: skew, ids. Returns the ids of those deleted.

local taken = {}
for number = 2, #ARGV do
    local id = ARGV[number]
    local state = redis.call('HGET', P .. 'live', id) or redis.call('HGET', P .. 'past', id)
    local job = state and fields(state)
    if job and job[STATE] ~= 'running' then
        drop(id, job)
        forget(id)
        taken[#taken + 1] = id
    end
end
return taken
