-- Finishes running jobs as done. ARGV: offset, the counter, then for each job: id, token, result or ''.
--
-- Returns for each: 1 done, 0 lease lost, -1 the job is not live here, or its end has consequences.

local ids, answers = {}, {}
for number = 3, #ARGV, 3 do
    ids[#ids + 1] = ARGV[number]
end
local states = several('HMGET', P .. 'live', ids)
local done, held, past, ended, seen, brought = {}, {}, {}, {}, {}, 0
local leased, stopping = {}, {}
for index, id in ipairs(ids) do
    local token, result = ARGV[3 * index + 1], ARGV[3 * index + 2]
    local job = states[index] and fields(states[index])
    answers[index] = job and job[BOUND] == '' and 0 or -1
    if answers[index] == 0 and not seen[id] then
        if job[STATE] == 'running' and job[TOKEN] == token and (job[LEASE] == '' or tonumber(job[LEASE]) > now) then
            seen[id] = job[KEY]
            answers[index] = 1
            if job[LEASE] ~= '' then
                leased[#leased + 1] = id
            end
            if job[STOP] ~= '' then
                stopping[#stopping + 1] = id
            end
            held[#done + 1] = holding_of(job, id)
            job[REV], job[STATE], job[LEASE], job[STOP], job[FINISHED] = job[REV] + 1, 'done', '', '', whole(now)
            job[RESULT] = result
            brought = brought + #result
            done[#done + 1] = id
            past[2 * #done - 1], past[2 * #done] = id, table.concat(job, US)
            ended[2 * #done - 1], ended[2 * #done] = whole(now), id
        end
    end
end
if #done == 0 then
    return answers
end

local kept = keeps_history()
if kept then
    begin_change(brought, #done)
    each('HSET', P .. 'past', past, 2)
    each('ZADD', P .. 'ended', ended, 2)
else
    begin_always()
    each('HDEL', P .. 'body', done, 1)
    each('ZREM', P .. 'ids', done, 1)
end
redis.call('HINCRBY', P .. 'counts', ARGV[2], #done)
each('HDEL', P .. 'live', done, 1)
each('ZREM', P .. 'running', held, 1)
each('SREM', P .. 'stopping', stopping, 1)
each('ZREM', P .. 'leases', leased, 1)
tell_ends(done)
free_place()
for _, id in ipairs(done) do
    if seen[id] ~= '' and redis.call('HGET', P .. 'keys', seen[id]) == id then
        redis.call('HDEL', P .. 'keys', seen[id])
        if kept then
            redis.call('HSET', P .. 'ended_keys', seen[id], id)
        end
    end
end
return answers
