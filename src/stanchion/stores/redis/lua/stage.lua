-- Stages jobs as one piece. KEYS[1] is the prefix of the keys of the write:
--
--   attempts  hash    attempt -> 1 if some of its jobs raise DuplicateKey for a taken key, otherwise ''
--   ids:A     set     the jobs of the attempt A
--   pieces:A  hash    its first job -> the jobs of a piece, each as text
--   used_at   string  when the write was last staged, or read to be published
--
-- ARGV: offset, attempt, 1 or '' as above, then for each job: id, text. A job that is there already is not added again.

local attempt = ARGV[2]
local first, fresh = nil, {}
for number = 4, #ARGV, 2 do
    if redis.call('SADD', P .. 'ids:' .. attempt, ARGV[number]) == 1 then
        first = first or ARGV[number]
        fresh[#fresh + 1] = ARGV[number + 1]
    end
end
if first then
    redis.call('HSET', P .. 'pieces:' .. attempt, first, table.concat(fresh, RS))
end
if ARGV[3] == '1' then
    redis.call('HSET', P .. 'attempts', attempt, '1')
else
    redis.call('HSETNX', P .. 'attempts', attempt, '')
end
redis.call('SET', P .. 'used_at', whole(now))
