-- Sets the full ttl again for each fair lock that its owner still holds, or keeps the place of the owner in the queue.
--
-- KEYS: lock, held, deadlines, waiting, ...
-- ARGV: owner, ttl in ms, ...
-- Reply: for each lock; without a list around it if there is only one
--        1: extended, 2: the place is kept, 0: neither a hold nor a place of this owner
--        or the error of this lock; the other locks are still handled

local function renew(k, a)
  local lock, held, deadlines, waiting = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4]
  local owner, ttl = ARGV[a + 1], ARGV[a + 2]
  if call('hexists', lock, owner) == 1 then
    call('pexpire', held, ttl)
    return call('pexpire', lock, ttl)
  end
  local place, deadline = expiry(waiting, owner), expiry(deadlines, owner)
  if not place or place <= NOW or not deadline then return 0 end
  keep_place(deadlines, waiting, owner, deadline)
  return 2
end

return each(4, 2, renew)
