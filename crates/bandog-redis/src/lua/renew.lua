-- Sets the full ttl again for each lock that its owner still holds, unless more is left. After an error at one
-- lock, the others are still renewed.
--
-- KEYS: lock, ...
-- ARGV: owner, ttl in ms, ...
-- Reply: for each lock 1: extended, 0: not held by this owner, or the error

local replies = {}
for i, lock in ipairs(KEYS) do
  local owner, ttl = ARGV[2 * i - 1], ARGV[2 * i]
  local reply = redis.pcall('hexists', lock, owner)
  if reply == 1 and redis.call('pttl', lock) < tonumber(ttl) then reply = redis.pcall('pexpire', lock, ttl) end
  replies[i] = reply
end
return replies
