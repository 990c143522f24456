-- Sets the full ttl again for each fair lock that its owner still holds, unless more is left, or keeps the place of the
-- owner in the queue.
--
-- KEYS: lock, held, queue, deadlines, waiting, ...
-- ARGV: owner, ttl in ms, ...
-- Reply: for each lock; without a list around it if there is only one
--        1: extended, 2: the place is kept, 3: the place is kept, and the lock is free and this owner is next
--        0: neither a hold nor a place of this owner
--        or the error of this lock; the other locks are still handled

local function renew(k, a)
  local lock, held = KEYS[k + 1], KEYS[k + 2]
  local queue, deadlines, waiting = KEYS[k + 3], KEYS[k + 4], KEYS[k + 5]
  local owner, ttl = ARGV[a + 1], ARGV[a + 2]
  if call('hexists', lock, owner) == 1 then
    lengthen(held, ttl)
    lengthen(lock, ttl)
    return 1
  end
  local place, deadline = expiry(waiting, owner), expiry(deadlines, owner)
  if not place or place <= NOW or not deadline then return 0 end
  keep_place(queue, deadlines, waiting, owner, deadline)
  if call('pttl', lock) ~= -2 then return 2 end
  -- If the queue cannot be read, the place is still kept.
  local done, first, is_new = pcall(first_in_queue, queue, deadlines, waiting)
  if done and first == owner then return 3 end
  if done and first and is_new then notify_next(queue, first) end
  return 2
end

return each(5, 2, renew)
