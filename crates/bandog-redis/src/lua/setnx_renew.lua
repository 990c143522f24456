-- Sets the full ttl again for each lock whose value is its owner, unless more is left.
--
-- KEYS: lock, ...
-- ARGV: owner, ttl in ms, ...
-- Reply: for each lock 1: extended, 0: not held by this owner, or the error; without a list around it if there is only
--        one

local function renew(k, a)
  if value_of(KEYS[k + 1]) ~= ARGV[a + 1] then return 0 end
  lengthen(KEYS[k + 1], ARGV[a + 2])
  return 1
end

return each(1, 2, renew)
