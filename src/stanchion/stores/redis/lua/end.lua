-- Records how members of a part of a flow have ended, and ends it when that is due: `advanced` and `completed` of
-- flows.py. KEYS[1] is the prefix of its keys. ARGV: offset, 1 when its end is noted elsewhere, so that it may end now,
-- 1 to close it, 1 when this may be a repeat, then for each member: place, state, and job, child and result as one
-- text.
--
-- Returns 'unknown'; 'note', when it would end now, nothing was changed; 'ended' and its fields, in turn, when this
-- call has ended it, or may have before; or else 'open'.

local may_end, close, again = ARGV[2] == '1', ARGV[3] == '1', ARGV[4] == '1'
local size, closed, ended, state, followed =
    unpack(redis.call('HMGET', P .. 'node', 'size', 'closed', 'ended', 'state', 'followed'))
if not state then
    return { 'unknown' }
end
local was, closes = state, close and closed ~= '1'
size, closed, ended = tonumber(size), closed == '1' or close, tonumber(ended)

local coming, gone, seen = {}, {}, {}
for first = 5, #ARGV, 3 do
    local place, how, rest = unpack(ARGV, first, first + 2)
    local known = seen[place] or redis.call('ZRANGEBYSCORE', P .. 'ends', place, place, 'LIMIT', 0, 1)[1]
    local before = known and string.match(known, '^[^\31]*\31([^\31]*)')
    if not known or (before ~= 'done' and how == 'done') then
        seen[place] = table.concat({ place, how, rest }, US)
        if known then
            gone[#gone + 1] = known
        else
            ended = ended + 1
        end
        coming[#coming + 1] = place
        coming[#coming + 1] = seen[place]
        if state == 'running' and how ~= 'done' then
            state = 'failed'
        end
    end
    if state == 'running' and closed and ended >= size then
        state = 'done'
    end
end
if state == 'running' and closed and ended >= size then
    state = 'done'
end

if was == 'running' and state ~= 'running' and not may_end then
    return { 'note' }
end
begin_always()
each('ZADD', P .. 'ends', coming, 2)
each('ZREM', P .. 'ends', gone, 1)
if #coming > 0 or closes or state ~= was then
    redis.call('HSET', P .. 'node', 'ended', whole(ended), 'closed', closed and '1' or '', 'state', state)
end
if state ~= was then
    redis.call('HSET', P .. 'node', 'finished_at', whole(now))
elseif state == 'running' or not again or followed then
    return { 'open' }
end
return { 'ended', redis.call('HGETALL', P .. 'node') }
