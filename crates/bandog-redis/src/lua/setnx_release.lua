-- Deletes each lock whose value is its owner, and notifies the subscribers. If the key `starving` exists, the script
-- deletes this key and makes an offer: see claim.lua and release.lua.
--
-- KEYS: lock, ...
-- ARGV: owner, channel, starving, ... (`starving` is a key or empty)
-- Reply: for each lock; without a list around it if there is only one
--        >= 0: freed, the number of notified subscribers
--        -1: this owner does not hold the lock
--        -2: freed, but the user has no right to publish
--        or the error of this lock; the other locks are still handled

local function release(k, a)
  local lock, owner, channel, starving = KEYS[k + 1], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3]
  local held = value_of(lock) == owner
  if held then call('del', lock) end
  -- If the offer cannot be made, the release still succeeds.
  if take_note(starving) and held then try('set', lock, OFFERED, 'px', OFFER_MS) end
  if not held then return -1 end
  return publish(channel, '0')
end

return each(1, 3, release)
