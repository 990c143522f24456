-- Takes each lock for its owner, as `SET lock owner NX PX ttl` does: if the key does not exist, if the owner already
-- holds the lock, or if `from` holds it. `from` is another owner that gives the lock to this owner.
--
-- KEYS: lock, token, ...
-- ARGV: owner, ttl in ms, fences, from, starving, ... (`fences` is their number; `from` and `starving` are empty if not
--       needed)
--
-- For `starving` and offers, see claim.lua. Here the value of an offer is the owner OFFERED.
--
-- Reply: for each lock; without a list around it if there is only one
--        > 0: granted, the last fence of the reserved block
--        < 0: busy, minus the milliseconds until the other hold expires
--        or the error of this lock; the other locks are still handled

local function claim(k, a)
  local lock, token = KEYS[k + 1], KEYS[k + 2]
  local owner, ttl, fences, from, starving = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4], ARGV[a + 5]
  local starves = from == '' and starving ~= ''
  if starves then from = OFFERED end
  local left = call('pttl', lock)
  local value = left ~= -2 and value_of(lock)

  if value == owner then
    local stored = stored_fence(token)
    local last = stored and string.find(stored, '^%d+$') and tonumber(stored)
    if not last then
      last = next_fence(token, fences)
      call('set', token, text(last))
    end
    if left < tonumber(ttl) then call('pexpire', lock, ttl) end
    return last
  end

  if value and (from == '' or value ~= from) then
    if starves then note_starving(starving) end
    return busy(left)
  end

  local last = next_fence(token, fences)
  -- The token comes first: if it cannot be written, the lock does not change. If then the lock could not be written, some
  -- fences would be left out, which does no harm.
  call('set', token, text(last))
  call('set', lock, owner, 'px', ttl)
  -- If other clients starve for this lock, their next claims set the key again.
  if starves then take_note(starving) end
  return last
end

return each(2, 5, claim)
