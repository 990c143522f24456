-- Returns the permits of each claim, and publishes the number of permits that are not taken. If the claim has no
-- permits, removes its place.
--
-- KEYS: lock, plain, leases, waiting, order, ...
-- ARGV: owner, channel, ...
-- Reply: for each lock; without a list around it if there is only one
--        >= 0: returned, the number of notified subscribers
--        -1: this claim has no permits and no place, or its permits have expired
--        -2: returned, but the user has no right to publish
--        -4: this claim has no permits, and its place is removed
--        or the error of this lock; the other locks are still handled

local function release(k, a)
  local lock, plain, leases, waiting, order = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4], KEYS[k + 5]
  local owner, channel, available = ARGV[a + 1], ARGV[a + 2], available_permits(lock)
  if not own_permits(plain, owner) then return leave(waiting, order, owner, channel, available) end
  local until_ms, receivers = call('zscore', leases, owner), 0
  local sum = return_permits(available and lock, plain, leases, { owner })
  if available and available + sum >= 0 then receivers = publish(channel, text(available + sum)) end
  return until_ms and tonumber(until_ms) > NOW and receivers or -1
end

return each(5, 2, release)
