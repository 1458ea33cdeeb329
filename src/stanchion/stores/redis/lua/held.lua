-- Returns the ids of the jobs that a token has in hand. ARGV: skew, token, 1 to look at those only that were reserved for
-- a reader elsewhere.

local token, hand = ARGV[2], P .. 'hand:' .. ARGV[2]
local listed = ARGV[3] == '1' or redis.call('EXISTS', hand) == 1
local ids, held = redis.call('SMEMBERS', listed and hand or P .. 'running'), {}
for index, state in ipairs(several('HMGET', P .. 'live', ids)) do
    if state and is_held(fields(state), token) then
        held[#held + 1] = ids[index]
    end
end
return held
