-- Takes a slot of a semaphore, or an order key, unless it is held already. KEYS[1] is the prefix of its keys:
--
--   holders   set     job and hold token of each held slot
--   capacity  string  number of slots; one if not set
--   queues    set     queues in which jobs wait, or have waited, for it
--
-- ARGV: offset, job and hold token as one text. Returns 1 if it is held, otherwise 0.

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
