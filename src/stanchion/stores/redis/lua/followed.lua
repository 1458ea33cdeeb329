-- Marks a flow node as followed: all consequences of its end are done. KEYS[1] is the prefix of its keys. ARGV: offset.

begin_always()
redis.call('HSET', P .. 'node', 'followed', '1')
