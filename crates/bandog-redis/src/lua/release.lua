-- Gives a lock back and tells those who wait for it.
--
-- KEYS: lock
-- ARGV: owner, channel
-- Reply: >= 0: freed, so many subscribers were told
--        -1: this owner does not hold it
--        -2: freed, but telling was refused

local lock = KEYS[1]
local owner, channel = ARGV[1], ARGV[2]

if redis.call('hexists', lock, owner) == 0 then return -1 end
redis.call('del', lock)
-- A release never fails because of its bell.
local told = redis.pcall('publish', channel, '0')
if type(told) == 'table' then return -2 end
return told
