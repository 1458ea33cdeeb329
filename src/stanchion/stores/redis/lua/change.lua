-- Applies changes of jobs that are unchanged since they were read. ARGV: offset, then for each change: id, the state
-- read, the new state, the new body or '' to keep it, the past waits or '' to keep them, the counter or '', the target:
-- '' or the key prefix of another queue, '' or the name of that queue if it is in another cluster slot; and its outbox
-- entry: '' or the key, and the text.
--
-- A counter with a leading minus is decremented: the job was not handed out, and its start is given back to the rate.
--
-- Returns for each: 1 done, 0 the job has changed, 2 its key is taken.

local WIDTH = 10
local answers, begun, brought, ends, freed = {}, false, 0, {}, false
for first = 2, #ARGV, WIDTH do
    local _, before, after, body, _, _, _, _, _, entry_text = unpack(ARGV, first, first + WIDTH - 1)
    brought = brought + #after + #body + #entry_text - #before
end
for first = 2, #ARGV, WIDTH do
    local id, before, after, body, waited, counted, target, beyond, outbox_key, entry_text =
        unpack(ARGV, first, first + WIDTH - 1)
    local old, new = fields(before), fields(after)
    local state = redis.call('HGET', P .. (old[FINISHED] ~= '' and 'past' or 'live'), id)
    local holder = new[KEY] ~= '' and new[FINISHED] == '' and redis.call('HGET', P .. 'keys', new[KEY])
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
            put(target, id, after, new, body)
        elseif new[FINISHED] == '' or keeps_history() then
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
        if counted == 'buried' or (old[FINISHED] == '' and new[FINISHED] ~= '') then
            ends[#ends + 1] = id
        end
        freed = freed or old[STATE] == 'running'
        local undone = string.match(counted, '^-(.*)$')
        if undone and redis.call('HEXISTS', P .. 'settings', 'rate_tokens') == 1 then
            redis.call('HINCRBYFLOAT', P .. 'settings', 'rate_tokens', 1)
        end
        if (undone or counted) ~= '' then
            redis.call('HINCRBY', P .. 'counts', undone or counted, undone and -1 or 1)
        end
    end
end
tell_ends(ends)
if freed then
    free_place()
end
return answers
