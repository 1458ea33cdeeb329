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
