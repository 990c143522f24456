-- Sets the full ttl again for the permits of each claim, unless more is left, or keeps its place.
--
-- KEYS: permits, held, waiting, order, ...
-- ARGV: owner, ids, lasts in ms, ...
-- Reply: for each lock; without a list around it if there is only one
--        1: extended, 2: the place is kept, 0: neither permits nor a place of this claim
--        or the error of this lock; the other locks are still handled

local function renew(k, a)
  local permits, held, waiting, order = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4]
  local owner, ids, lasts = ARGV[a + 1], ids_in(ARGV[a + 2]), tonumber(ARGV[a + 3])
  local until_ms = call('zscore', permits, ids[1])
  if until_ms and tonumber(until_ms) > NOW then
    extend(permits, held, ids, lasts)
    return 1
  end
  return renew_place(waiting, order, owner)
end

return each(4, 3, renew)
