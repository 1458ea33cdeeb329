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
