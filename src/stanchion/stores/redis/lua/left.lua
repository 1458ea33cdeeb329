-- Forgets a job that has arrived in a queue of another cluster slot. ARGV: offset, id, target and job as they were
-- read. A job that came back and leaves again stays.

if redis.call('HGET', P .. 'leaving', ARGV[2]) == ARGV[3] then
    redis.call('HDEL', P .. 'leaving', ARGV[2])
end
