-- Notes that all is done that the end of a part of a flow entails. KEYS[1] is the prefix of its keys. ARGV: offset.

begin_always()
redis.call('HSET', P .. 'node', 'followed', '1')
