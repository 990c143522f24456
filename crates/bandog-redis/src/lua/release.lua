-- Frees each lock that its owner holds, and notifies its subscribers. If the argument `starving` names a key and this
-- key exists, a client starves for the lock. Then the script deletes the key and makes an offer: the lock is reserved
-- for starving clients for a short time, see claim.lua. If the owner does not hold the lock, the script only deletes
-- the key `starving`.
--
-- KEYS: lock, ...
-- ARGV: owner, channel, starving, ... (`starving` is a key, or empty, or, for a single lock, left out)
-- Reply: for each lock; without a list around it if there is only one
--        >= 0: freed, the number of notified subscribers
--        -1: this owner does not hold the lock
--        -2: freed, but the user has no right to publish
--        or the error of this lock; the other locks are still handled

local function release(lock, owner, channel, starving)
  local held = redis.call('hexists', lock, owner) == 1
  if held then redis.call('del', lock) end
  -- If an offer cannot be made, the release still succeeds. An offer whose ttl cannot be set is deleted.
  if starving and starving ~= '' and type(redis.pcall('get', starving)) == 'string' then
    local noted = redis.pcall('del', starving) == 1
    if noted and held and redis.pcall('hset', lock, OFFERED, 1) == 1 and redis.pcall('pexpire', lock, OFFER_MS) ~= 1 then
      redis.call('del', lock)
    end
  end
  if not held then return -1 end
  -- If the notification is refused, the release still succeeds.
  local receivers = redis.pcall('publish', channel, '0')
  if type(receivers) == 'table' then return -2 end
  return receivers
end

if #KEYS == 1 then return release(KEYS[1], ARGV[1], ARGV[2], ARGV[3]) end

local replies = {}
for i, lock in ipairs(KEYS) do
  replies[i] = attempt(release, lock, ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i])
end
return replies
