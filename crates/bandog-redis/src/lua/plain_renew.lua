-- Sets the full ttl again for the permits of each claim, unless more is left, or keeps its place.
--
-- KEYS: leases, waiting, order, ...
-- ARGV: owner, ttl in ms, ...
-- Reply: for each lock; without a list around it if there is only one
--        1: extended, 2: the place is kept, 0: neither permits nor a place of this claim
--        or the error of this lock; the other locks are still handled

local function renew(k, a)
  local leases, waiting, order, owner, ttl = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], ARGV[a + 1], tonumber(ARGV[a + 2])
  local until_ms = call('zscore', leases, owner)
  if until_ms and tonumber(until_ms) > NOW then
    extend_plain(leases, owner, ttl)
    return 1
  end
  return renew_place(waiting, order, owner)
end

return each(3, 2, renew)
