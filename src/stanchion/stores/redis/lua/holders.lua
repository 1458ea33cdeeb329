-- Returns the workers with running jobs, '' for those with a lease, and their numbers of jobs, alternating; one step
-- per worker. ARGV: offset.

local holders, from = {}, '-'
while true do
    local first = redis.call('ZRANGEBYLEX', P .. 'running', from, '+', 'LIMIT', 0, 1)[1]
    if not first then
        return holders
    end
    local worker = string.match(first, '^[^\31]*')
    holders[#holders + 1] = worker
    holders[#holders + 1] = redis.call('ZLEXCOUNT', P .. 'running', held_by(worker))
    from = '[' .. worker .. ' '
end
