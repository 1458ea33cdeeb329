-- The nodes of flows.

--- node

-- Stores a flow node unless it is there. KEYS[1] is the prefix of its keys:
--
--   node      hash    fields of a FlowNode; opened: 1 once its jobs are stored; followed: 1 once all consequences of its
--                     end are done
--   ends      zset    member ends by index: index, state, job, child and result
--   adding    hash    first of the jobs that were added together -> their first index and, until they are stored, the
--                     jobs
--   jobs      zset    id and queue of all jobs of the flow, in the order of the text; root only
--   nodes     set     all nodes of the flow; root only
--
-- ARGV: offset, then names and values alternating. Returns 1 if its jobs are stored, otherwise 0.

if redis.call('EXISTS', P .. 'node') == 0 then
    redis.call('HSET', P .. 'node', 'created_at', whole(now), unpack(ARGV, 2))
end
return redis.call('HEXISTS', P .. 'node', 'opened')

--- added

-- Records that members of a flow node are stored. KEYS[1] is the prefix of its keys. ARGV: offset, the id of the first
-- member.

local known = redis.call('HGET', P .. 'adding', ARGV[2])
if known then
    redis.call('HSET', P .. 'adding', ARGV[2], string.match(known, '^[^\31]*\31'))
end

--- extend

-- Assigns indexes to further members of a flow node. KEYS[1] is the prefix of its keys. ARGV: offset, the id of the
-- first member, their number, and all of them as one text. Returns the first index, also of a repeat, and 1 while the
-- members are still to be stored; nothing if the node is closed or missing.

local batch, count = ARGV[2], tonumber(ARGV[3])
local known = redis.call('HGET', P .. 'adding', batch)
if known then
    local first, jobs = string.match(known, '^([^\31]*)\31(.*)$')
    return { tonumber(first), jobs ~= '' and 1 or 0 }
end
local size, closed = unpack(redis.call('HMGET', P .. 'node', 'size', 'closed'))
if not size or closed == '1' then
    return {}
end
redis.call('HSET', P .. 'adding', batch, size .. US .. ARGV[4])
redis.call('HINCRBY', P .. 'node', 'size', count)
return { tonumber(size), 1 }

--- end

-- Records member ends of a flow node, and ends the node if due: `advanced` and `completed` of flows.py. KEYS[1] is the
-- prefix of its keys. ARGV: offset, 1 if its end is listed in `ending`, so that it may end now, 1 to close it, 1 if
-- this may be a repeat, then for each member: index, state, and job, child and result as one text.
--
-- Returns 'unknown'; 'unlisted' if it would end but is not listed, with nothing changed; 'ended' and its fields,
-- alternating, if this call, or an earlier try of it, has ended it; otherwise 'open'.

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
    local index, how, rest = unpack(ARGV, first, first + 2)
    local known = seen[index] or redis.call('ZRANGEBYSCORE', P .. 'ends', index, index, 'LIMIT', 0, 1)[1]
    local before = known and string.match(known, '^[^\31]*\31([^\31]*)')
    if not known or (before ~= 'done' and how == 'done') then
        seen[index] = table.concat({ index, how, rest }, US)
        if known then
            gone[#gone + 1] = known
        else
            ended = ended + 1
        end
        coming[#coming + 1] = index
        coming[#coming + 1] = seen[index]
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
    return { 'unlisted' }
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

--- followed

-- Marks a flow node as followed: all consequences of its end are done. KEYS[1] is the prefix of its keys. ARGV: offset.

begin_always()
redis.call('HSET', P .. 'node', 'followed', '1')

--- stop

-- Cancels a flow node unless it has ended. KEYS[1] is the prefix of its keys. ARGV: offset.

if redis.call('HGET', P .. 'node', 'state') == 'running' then
    redis.call('HSET', P .. 'node', 'state', 'cancelled', 'finished_at', whole(now), 'followed', '1')
end
