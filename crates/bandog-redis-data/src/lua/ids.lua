-- Blocks of ids, as RIdGenerator has them.
--
-- KEYS[1] the next id, KEYS[2] the size of a block
-- ARGV[1] the size of a new object
-- Reply: the first id of the block and its size, as texts.
redis.call('SET', KEYS[1], '1', 'NX')
redis.call('SET', KEYS[2], ARGV[1], 'NX')
local size, first = redis.call('GET', KEYS[2]), redis.call('GET', KEYS[1])
redis.call('INCRBY', KEYS[1], size)
return {first, size}
