-- Returns the ids of the jobs that are reserved under a token. ARGV: offset, token, 1 to read only jobs reserved as a
-- batch.

local token, batch = ARGV[2], P .. 'batch:' .. ARGV[2]
local listed = ARGV[3] == '1' or redis.call('EXISTS', batch) == 1
local ids, held = listed and redis.call('SMEMBERS', batch) or running_ids('-', '+'), {}
for index, state in ipairs(several('HMGET', P .. 'live', ids)) do
    if state and is_held(fields(state), token) then
        held[#held + 1] = ids[index]
    end
end
return held
