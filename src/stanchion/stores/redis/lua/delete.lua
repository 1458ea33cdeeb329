-- Deletes a queue with all that is in it; returns the number of live jobs. ARGV: offset.

local jobs = redis.call('HLEN', P .. 'live')
delete_queue()
return jobs
