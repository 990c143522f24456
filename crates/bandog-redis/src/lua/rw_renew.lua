-- Sets the full ttl again for each hold, unless more is left, or keeps the place of a waiting writer.
--
-- KEYS: lock, held, writers, ...
-- ARGV: kind, owner, ttl in ms, prefix, ...
--       (`kind` is `read` or `write`)
-- Reply: for each lock; without a list around it if there is only one
--        1: extended, 2: the place is kept, 0: neither a hold nor a place of this owner
--        or the error of this lock; the other locks are still handled

-- Extends the hold of a reader. The ttl of the lock becomes the longest ttl of its readers, and is never lowered.
-- Redisson can lower it below the ttl of other readers, so each renewal restores it.
local function renew_reading(lock, held, owner, ttl, hold, prefix)
  if call('hexists', lock, owner) == 0 or ttl_of_hold(prefix, owner) == 0 then return 0 end
  local left = call('pttl', lock)
  local _, others = some_readers(lock, held, prefix, left)
  local longest = math.max(left, others, tonumber(ttl))
  call('pexpire', lock, longest)
  lengthen(hold, ttl)
  call('pexpire', held, longest)
  return 1
end

local function renew(k, a)
  local lock, held, writers = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3]
  local kind, owner, ttl, prefix = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4]
  if kind == 'read' then return renew_reading(lock, held, owner, ttl, hold_key(prefix, owner, 1), prefix) end
  if call('hexists', lock, writer(owner)) == 1 then
    holds_of(lock)
    lengthen(lock, ttl)
    return 1
  end
  local until_ms = call('zscore', writers, owner)
  if not until_ms or tonumber(until_ms) <= NOW then return 0 end
  -- At its memory limit, Redis refuses ZADD, but only if it is the first write of a script.
  call('pexpire', writers, PLACE_MS)
  call('zadd', writers, text(NOW + PLACE_MS), owner)
  return 2
end

return each(3, 4, renew)
