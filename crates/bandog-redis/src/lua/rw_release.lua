-- Ends the hold of each owner, and notifies the subscribers of the lock if the lock is free then. If the owner does not
-- hold the lock, removes its place among the waiting writers. For `starving`, see release.lua.
--
-- KEYS: lock, held, writers, ...
-- ARGV: kind, owner, channel, starving, prefix, ...
--       (`kind` is `read` or `write`; `starving` is a key or empty)
-- Reply: for each lock; without a list around it if there is only one
--        >= 0: freed, the number of notified subscribers
--        -1: this owner does not hold the lock, and had no place
--        -2: freed, but the user has no right to publish
--        -3: this owner holds the lock no longer, and other readers hold it
--        -4: this owner does not hold the lock, and its place is removed
--        or the error of this lock; the other locks are still handled

-- Ends the hold of a reader. Returns whether other readers hold the lock.
-- `own` is the ttl of this hold.
local function end_reading(lock, held, owner, prefix, hold, own)
  local left = call('pttl', lock)
  local alive, longest, dead = 1, left, {}
  -- If the hash expires later than this hold, it expires with the hold of another reader.
  if own + SAME_MS > left or reads_all(lock, held, left) then
    alive, longest, dead = readers(lock, prefix, left, owner)
  end
  if alive == 0 then
    call('del', lock, hold, held)
    return false
  end
  local commands = {}
  if longest > 0 then
    commands[1] = { 'pexpire', lock, longest, undo = left > 0 and { 'pexpire', lock, left } }
  end
  commands[#commands + 1] = { 'del', hold, undo = { 'set', hold, 1, 'px', math.max(own, 1) } }
  commands[#commands + 1] = { 'hdel', lock, owner }
  write(commands)
  remove_dead(lock, held, dead)
  try('hdel', held, owner)
  return true
end

-- Handles an owner that does not hold the lock: its client no longer waits.
local function leave(lock, writers, kind, owner, channel, starving)
  take_note(starving)
  local place = kind == 'write' and call('zscore', writers, owner)
  if not place or call('zrem', writers, owner) == 0 or tonumber(place) <= NOW then return -1 end
  -- The last waiting writer no longer keeps readers out.
  if call('hget', lock, 'mode') ~= 'write' and call('zcount', writers, '(' .. text(NOW), '+inf') == 0 then
    publish(channel, '0')
  end
  return -4
end

local function release(k, a)
  local lock, held, writers = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3]
  local kind, owner, channel, starving, prefix = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4], ARGV[a + 5]
  local is_held
  if kind == 'write' then
    is_held = has_field(lock, writer(owner))
    if is_held then
      holds_of(lock)
      call('del', lock)
    end
  else
    local hold = hold_key(prefix, owner, 1)
    local own = has_field(lock, owner) and ttl_of_hold(prefix, owner) or 0
    is_held = own > 0
    if is_held and end_reading(lock, held, owner, prefix, hold, own) then return -3 end
  end
  if not is_held then return leave(lock, writers, kind, owner, channel, starving) end
  if take_note(starving) then offer(lock, 'mode', 'write', writer(OFFERED), 1) end
  return publish(channel, kind == 'write' and '1' or '0')
end

return each(3, 5, release)
