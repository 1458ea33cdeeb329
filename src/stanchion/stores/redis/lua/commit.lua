-- Finishes running jobs as done. ARGV: offset, the counter, a JSON array of the id and the token of each; then the result
-- of each or '', or nothing if none has one.
--
-- Returns for each: 1 done, 0 lease lost, -1 the job is not live here, or its end has consequences.

local ids, tokens, answers = {}, {}, {}
for place, text in ipairs(cjson.decode(ARGV[3])) do
    local list = place % 2 == 1 and ids or tokens
    list[#list + 1] = text
end
local states = several('HMGET', P .. 'live', ids)
local done, held, past, ended, seen, brought, at = {}, {}, {}, {}, {}, 0, whole(now)
local leased, stopping = {}, {}
-- The fields that a commit needs or changes; those that it leaves as they are stay together, as splitting is what costs.
local PARTS = '^' .. string.rep('([^\31]*)\31', 8) .. '(' .. string.rep('[^\31]*\31', FINISHED - STOP - 1)
    .. ')[^\31]*\31([^\31]*)\31([^\31]*)\31[^\31]*(\31' .. string.rep('[^\31]*\31', FIELDS - RESULT - 1) .. ')([^\31]*)$'
for index, id in ipairs(ids) do
    local token, result = tokens[index], ARGV[3 + index] or ''
    if not states[index] then
        answers[index] = -1
    else
        local rev, state, attempts, holder, worker, lease, started, stop, times, key, errors, slots, bound =
            string.match(states[index], PARTS)
        answers[index] = bound == '' and 0 or -1
        if bound == '' and not seen[id] and state == 'running' and holder == token
            and (lease == '' or tonumber(lease) > now) then
            seen[id] = key
            answers[index] = 1
            if lease ~= '' then
                leased[#leased + 1] = id
            end
            if stop ~= '' then
                stopping[#stopping + 1] = id
            end
            brought = brought + #result
            local number = #done + 1
            done[number], held[number] = id, holding_of(lease, worker, id)
            past[2 * number - 1], past[2 * number] = id, (rev + 1) .. US .. 'done' .. US .. attempts .. US .. token .. US
                .. worker .. US .. US .. started .. US .. US .. times .. at .. US .. key .. US .. errors .. US .. result
                .. slots .. bound
            ended[2 * number - 1], ended[2 * number] = at, id
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
    each('HDEL', P .. 'past_waits', done, 1)
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
