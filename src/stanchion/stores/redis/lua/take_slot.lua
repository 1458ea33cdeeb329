-- Takes a slot of a semaphore, or an order key, unless it is held already. KEYS[1] is the prefix of its keys:
--
--   holders   set     job and hold token of each slot that is held
--   capacity  string  how many there are; one where nobody said so
--   queues    set     queues in which jobs wait, or have waited, for it
--
-- ARGV: offset, job and hold token as one text. Returns 1 when it is held, otherwise 0.

begin_always()
local holders = P .. 'holders'
if redis.call('SISMEMBER', holders, ARGV[2]) == 1 then
    return 1
end
if redis.call('SCARD', holders) >= tonumber(redis.call('GET', P .. 'capacity') or 1) then
    return 0
end
redis.call('SADD', holders, ARGV[2])
return 1
