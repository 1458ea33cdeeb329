-- The ends of attempts, and other changes of jobs.

--- commit

-- Finishes running jobs as done. ARGV: offset, a JSON array of the id and the token of each; then the result of each or
-- '', or nothing if none has one.
--
-- Returns for each: 1 done, 0 lease lost, -1 the job is not live here, or its end has consequences.

local ids, tokens, answers = {}, {}, {}
for place, text in ipairs(cjson.decode(ARGV[2])) do
    local list = place % 2 == 1 and ids or tokens
    list[#list + 1] = text
end
local states = several('HMGET', P .. 'live', ids)
local done, held, past, ended, seen, brought, at = {}, {}, {}, {}, {}, 0, whole(now)
local leased, stopping, popped = {}, {}, 0
-- The fields that a commit needs or changes; those that it leaves as they are stay together, as splitting is what costs.
local PARTS = '^' .. string.rep('([^\31]*)\31', 9) .. '(' .. string.rep('[^\31]*\31', FINISHED_AT - CANCEL_REQUESTED - 1)
    .. ')[^\31]*\31([^\31]*)\31([^\31]*)\31[^\31]*(\31' .. string.rep('[^\31]*\31', FIELDS - RESULT - 1) .. ')([^\31]*)$'
for index, id in ipairs(ids) do
    local token, result = tokens[index], ARGV[2 + index] or ''
    if not states[index] then
        answers[index] = -1
    else
        local rev, state, attempts, holder, worker, lease, started, delivery, stop, times, key, errors, slots, bound =
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
            if delivery == 'popped' then
                popped = popped + 1
            end
            brought = brought + #result
            local number = #done + 1
            done[number], held[number] = id, holding_of(lease, worker, id)
            past[2 * number - 1], past[2 * number] = id, (rev + 1) .. US .. 'done' .. US .. attempts .. US .. token .. US
                .. worker .. US .. US .. started .. US .. US .. US .. times .. at .. US .. key .. US .. errors .. US .. result
                .. slots .. bound
            ended[2 * number - 1], ended[2 * number] = at, id
        end
    end
end
if #done == 0 then
    return answers
end

local kept = keeps_history(P)
if kept then
    begin_change(brought, #done)
    each('HSET', P .. 'past', past, 2)
    each('ZADD', P .. 'ended', ended, 2)
else
    begin_always()
    each('HDEL', P .. 'body', done, 1)
    each('HDEL', P .. 'past_waits', done, 1)
    each('ZREM', P .. 'ids', done, 1)
    each('ZREM', P .. 'letters', done, 1)
end
for counter, number in pairs({ committed = #done - popped, popped = popped }) do
    if number > 0 then
        redis.call('HINCRBY', P .. 'counts', counter, number)
    end
end
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

--- change

-- Applies changes of jobs that are unchanged since they were read. ARGV: offset, then for each change: id, the state
-- read, the new state, the new body or '' to keep it, the past waits or '' to keep them, the name of the step or '', the
-- counters of the queue and what to add to them, the target: '' or the key prefix of another queue, '' or the name of
-- that queue if it is in another cluster slot; of each other queue whose counters change, the same two and its counters;
-- and its outbox entry: '' or the key, and the text.
--
-- The name of a step begins with a minus if the job was not handed out: its start is given back to the rate.
--
-- Returns for each: 1 done, 0 the job has changed, 2 its key is taken.

local WIDTH = 12
local answers, begun, brought, ends, freed = {}, false, 0, {}, false
for first = 2, #ARGV, WIDTH do
    local _, before, after, body, _, _, _, _, _, _, _, entry_text = unpack(ARGV, first, first + WIDTH - 1)
    brought = brought + #after + #body + #entry_text - #before
end
for first = 2, #ARGV, WIDTH do
    local id, before, after, body, waited, step, counted, target, beyond, others, outbox_key, entry_text =
        unpack(ARGV, first, first + WIDTH - 1)
    local old, new = fields(before), fields(after)
    local state = redis.call('HGET', P .. (old[FINISHED_AT] ~= '' and 'past' or 'live'), id)
    local holder = new[KEY] ~= '' and new[FINISHED_AT] == '' and redis.call('HGET', P .. 'keys', new[KEY])
    if state ~= before then
        answers[#answers + 1] = 0
    elseif holder and holder ~= id then
        answers[#answers + 1] = 2
    else
        answers[#answers + 1] = 1
        if not begun then
            begin_change(brought, (#ARGV - 1) / WIDTH)
            begun = true
        end
        if target ~= '' and body == '' then
            body = redis.call('HGET', P .. 'body', id)
        end
        if target ~= '' and waited ~= '' then
            body = body .. GS .. waited
        end
        drop(id, old)
        if target ~= '' then
            redis.call('ZADD', P .. 'gone', whole(now), id)
        end
        if beyond ~= '' then
            redis.call('HSET', P .. 'leaving', id, table.concat({ beyond, id, after, body }, US))
            forget(id)
        elseif target ~= '' then
            forget(id)
            revive(target)
            redis.call('HSETNX', target .. 'settings', 'made_at', whole(now))
            store(target, id, after, new, body)
        elseif new[FINISHED_AT] == '' or keeps_history(P) then
            put(P, id, after, new, body)
            if waited ~= '' then
                redis.call('HSET', P .. 'past_waits', id, waited)
            end
        else
            forget(id)
        end
        if outbox_key ~= '' then
            redis.call('HSET', P .. 'outbox', outbox_key, entry_text)
        end
        if step == 'buried' or (old[FINISHED_AT] == '' and new[FINISHED_AT] ~= '') then
            ends[#ends + 1] = id
        end
        freed = freed or old[STATE] == 'running'
        if string.sub(step, 1, 1) == '-' and redis.call('HEXISTS', P .. 'settings', 'rate_tokens') == 1 then
            redis.call('HINCRBYFLOAT', P .. 'settings', 'rate_tokens', items_of(old[ITEMS]))
        end
        count(P, counted)
        for prefix, name, its in string.gmatch(others, '([^\31\30]*)\31([^\31\30]*)\31([^\31\30]*)') do
            local key = table.concat({ id, new[REV], name }, ':')
            if name ~= '' then
                redis.call('HSET', P .. 'leaving', key, table.concat({ name, key, its }, US))
            else
                revive(prefix)
                redis.call('HSETNX', prefix .. 'settings', 'made_at', whole(now))
                count(prefix, its)
            end
        end
    end
end
tell_ends(ends)
if freed then
    free_place()
end
return answers

--- delete_jobs

-- Deletes jobs that are queued, waiting or finished, if unchanged. ARGV: offset, then for each: id, the state read, and
-- its outbox entry: '' or the key, and the text. Returns for each 1 if it was deleted, otherwise 0.

begin_always()
local answers = {}
for first = 2, #ARGV, 4 do
    local id, seen, outbox_key, entry_text = unpack(ARGV, first, first + 3)
    local state = redis.call('HGET', P .. 'live', id) or redis.call('HGET', P .. 'past', id)
    answers[#answers + 1] = state == seen and 1 or 0
    if state == seen then
        if outbox_key ~= '' then
            redis.call('HSET', P .. 'outbox', outbox_key, entry_text)
        end
        drop(id, fields(state))
        forget(id)
    end
end
return answers
