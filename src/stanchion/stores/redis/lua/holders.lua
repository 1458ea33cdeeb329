-- Returns who holds the running jobs: for each its id, worker or '', and the end of its lease or ''. ARGV: offset.

local rows = {}
local ids = redis.call('SMEMBERS', P .. 'running')
for index, state in ipairs(several('HMGET', P .. 'live', ids)) do
    local job = fields(state)
    rows[index] = table.concat({ ids[index], job[WORKER], job[LEASE] }, US)
end
return table.concat(rows, RS)
