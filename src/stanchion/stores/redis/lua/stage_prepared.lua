-- Stages a portion of prepared jobs, beside what stage.lua does. KEYS[1] is the prefix of the keys of the write:
--
--   prepared:A  hash    its first job -> a portion of the attempt A, as text; see staging.py
--   numbers     hash    attempt -> the number of jobs in its portions
--
-- ARGV: offset, attempt, first job, number of jobs, portion. A portion that is there already is not added again.

local attempt = ARGV[2]
if redis.call('HSETNX', P .. 'prepared:' .. attempt, ARGV[3], ARGV[5]) == 1 then
    redis.call('HINCRBY', P .. 'numbers', attempt, ARGV[4])
end
redis.call('HSETNX', P .. 'attempts', attempt, '')
redis.call('SET', P .. 'used_at', whole(now))
