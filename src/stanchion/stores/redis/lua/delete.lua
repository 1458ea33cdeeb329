-- Deletes a queue with all that is in it; returns the number of live jobs. ARGV: skew.

local jobs = redis.call('HLEN', P .. 'live')
delete_queue()
return jobs
