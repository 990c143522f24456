-- Takes a lock that is free, without a fence: what the fence costs is the difference to claim.lua.
--
-- KEYS: lock
-- ARGV: owner, ttl in ms
-- Reply: 1: granted; < 0: busy, minus the milliseconds that somebody else's hold lasts

local left = redis.call('pttl', KEYS[1])
if left ~= -2 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return -math.max(left, 1)
end
redis.call('hset', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return 1
