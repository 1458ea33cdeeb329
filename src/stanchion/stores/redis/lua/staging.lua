-- Jobs staged until their write is published.

--- stage

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

--- stage_prepared

-- Stages a portion of prepared jobs, beside what the script `stage` does. KEYS[1] is the prefix of the keys of the write:
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

--- staged

-- Returns the attempts of a write, each with its number of staged jobs and its flag in `attempts`, alternating; keeps
-- them for another day. KEYS[1] is the prefix of its keys. ARGV: offset.

local answer = {}
local attempts = redis.call('HGETALL', P .. 'attempts')
for number = 1, #attempts, 2 do
    answer[#answer + 1] = attempts[number]
    local prepared = redis.call('HGET', P .. 'numbers', attempts[number]) or 0
    answer[#answer + 1] = redis.call('SCARD', P .. 'ids:' .. attempts[number]) + prepared
    answer[#answer + 1] = attempts[number + 1]
end
if #attempts > 0 then
    redis.call('SET', P .. 'used_at', whole(now))
end
return answer

--- unstage

-- Deletes the staged jobs of a write. KEYS[1] is the prefix of its keys. ARGV: offset, '' or the time after which it
-- must not have been used.

local used_at = redis.call('GET', P .. 'used_at')
if ARGV[2] == '' or not used_at or tonumber(used_at) <= tonumber(ARGV[2]) then
    for _, attempt in ipairs(redis.call('HKEYS', P .. 'attempts')) do
        for _, name in ipairs({ 'ids:', 'pieces:', 'prepared:' }) do
            redis.call('UNLINK', P .. name .. attempt)
        end
    end
    redis.call('UNLINK', P .. 'attempts', P .. 'numbers', P .. 'used_at')
end

--- begin

-- Writes a value of a kind if its version is still the one read, and records that a publication has begun. KEYS[1] is
-- the prefix of `begun`, a hash of write -> publication; its braces enclose the key of the values of the kind, so that
-- both are in one cluster slot. ARGV: offset, write, publication, and of the value: name, version read (0: absent),
-- text. Returns 1 if that was done; otherwise 0, and the publication of the write that has begun before, '' for none.

local values = string.match(P, '{(.*)}:$')
local begun = redis.call('HGET', P .. 'begun', ARGV[2]) or ''
local known = redis.call('HGET', values, ARGV[4]) or ''
local version = known == '' and '0' or string.match(known, '^[^\31]*')
if begun ~= '' or version ~= ARGV[5] then
    return { 0, begun }
end
redis.call('HSET', P .. 'begun', ARGV[2], ARGV[3])
redis.call('HSET', values, ARGV[4], whole(tonumber(version) + 1) .. US .. ARGV[6])
return { 1, '' }
