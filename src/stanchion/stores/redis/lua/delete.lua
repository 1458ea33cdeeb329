-- Deletes a queue with all its contents; returns the number of live jobs. ARGV: offset.

local jobs = redis.call('HLEN', P .. 'live')
delete_queue()
return jobs
