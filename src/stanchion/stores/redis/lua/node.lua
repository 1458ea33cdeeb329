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
