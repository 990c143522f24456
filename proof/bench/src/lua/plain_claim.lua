-- Takes a lock that is free, without a fence. The difference between the times of this script and of claim.lua is the
-- cost of the fence.
--
-- KEYS: lock
-- ARGV: owner, ttl in ms
-- Reply: 1 if the lock is granted. If another owner holds it: minus the remaining ttl of that hold, in ms

local left = redis.call('pttl', KEYS[1])
if left ~= -2 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return -math.max(left, 1)
end
redis.call('hset', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return 1
