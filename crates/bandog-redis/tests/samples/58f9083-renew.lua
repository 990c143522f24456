-- Gives each lock that is still held by its owner a fresh ttl. A refusal of one does not stop the others.
--
-- KEYS: lock, ...
-- ARGV: owner, ttl in ms, ...
-- Reply: for each lock 1: extended, 0: not held by this owner, or the error

local replies = {}
for i, lock in ipairs(KEYS) do
  local owner, ttl = ARGV[2 * i - 1], ARGV[2 * i]
  local reply = redis.pcall('hexists', lock, owner)
  if reply == 1 then reply = redis.pcall('pexpire', lock, ttl) end
  replies[i] = reply
end
return replies
