-- Gives each lock back that its owner holds, and tells those who wait for it.
--
-- KEYS: lock, ...
-- ARGV: owner, channel, ...
-- Reply: for each lock; without a list around it if there is only one
--        >= 0: freed, so many subscribers were told
--        -1: this owner does not hold it
--        -2: freed, but telling was refused
--        or the error, which stops none of the others

local function release(lock, owner, channel)
  if redis.call('hexists', lock, owner) == 0 then return -1 end
  redis.call('del', lock)
  -- A release never fails because of its bell.
  local told = redis.pcall('publish', channel, '0')
  if type(told) == 'table' then return -2 end
  return told
end

if #KEYS == 1 then return release(KEYS[1], ARGV[1], ARGV[2]) end

local replies = {}
for i, lock in ipairs(KEYS) do
  local done, reply = pcall(release, lock, ARGV[2 * i - 1], ARGV[2 * i])
  -- Before version 7 Redis raised texts.
  if not done and type(reply) == 'string' then reply = redis.error_reply(reply) end
  replies[i] = reply
end
return replies
