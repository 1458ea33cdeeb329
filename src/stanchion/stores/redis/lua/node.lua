-- Stores a part of a flow unless it is there. KEYS[1] is the prefix of its keys:
--
--   node      hash    fields of a Node; opened: 1 once its jobs are stored; followed: 1 once all is done that its end
--                     entails
--   ends      zset    how members have ended, by their places: place, state, job, child and result
--   adding    hash    first of the jobs that were added together -> their first place and, until they are stored, the
--                     jobs
--   jobs      zset    id and queue of all jobs of the flow, in the order of the text; with the root only
--   nodes     set     all parts of the flow; with the root only
--
-- ARGV: offset, then names and values in turn. Returns 1 when its jobs are stored, otherwise 0.

if redis.call('EXISTS', P .. 'node') == 0 then
    redis.call('HSET', P .. 'node', 'created_at', whole(now), unpack(ARGV, 2))
end
return redis.call('HEXISTS', P .. 'node', 'opened')
