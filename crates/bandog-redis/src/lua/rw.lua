-- The holders of a read-write lock. The lock is a hash with the field `mode`, and one field for each owner. The field of
-- a writer ends with `:write`. Each hold of a reader also has a key of its own with the ttl of this hold.

-- The format of an owner is a UUID, a colon and a number.
local OWNER = '^' .. string.rep('%x', 8) .. string.rep('%-' .. string.rep('%x', 4), 4) .. string.rep('%x', 8) .. ':%-?%d+$'
-- Not more than this number of holds of one reader is read.
local MAX_HOLDS = 1000
-- Maximum number of dead readers whose fields one step removes.
local MAX_REMOVED = 64
-- The difference between two ttls that were set in the same step is less than this.
local SAME_MS = 100
-- Number of readers that one step reads on average, if all readers are ours.
local READERS_PER_STEP = 8

local function writer(owner) return owner .. ':write' end
local function hold_key(prefix, owner, number) return prefix .. owner .. ':rwlock_timeout:' .. number end

-- The milliseconds until the first hold of a reader expires, or 0 if it has expired.
local function ttl_of_hold(prefix, owner)
  local hold = hold_key(prefix, owner, 1)
  local left = call('pttl', hold)
  if left == -2 then check_absent(hold) end
  return math.max(left, 0)
end

-- Whether this field of a hash with a mode belongs to a read-write lock.
local function is_hold(field, value)
  if field == 'mode' then return true end
  if string.sub(field, -6) == ':write' then field = string.sub(field, 1, -7) end
  return string.find(field, OWNER) and #value < 10 and string.find(value, '^%d+$')
end

-- The fields of a read-write lock and their values. Another application may have a hash with a field `mode`, too. Such a
-- hash is refused, so that it stays unchanged.
local function holds_of(lock)
  local fields = call('hgetall', lock)
  local is_lock = #fields ~= 2
  for i = 1, #fields, 2 do is_lock = is_lock and is_hold(fields[i], fields[i + 1]) end
  if not is_lock then refuse('WRONGTYPE this hash is not a read-write lock') end
  return fields
end

-- The number of holds of a reader.
local function number_of_holds(value) return math.min(tonumber(value) or 0, MAX_HOLDS) end

-- Whether all readers of a lock with this number of fields are ours. `held` has one field for each of our readers. See
-- `reads_all` for the case in which this is wrong.
local function are_all_ours(fields, held) return fields > 1 and fields == call('hlen', held) + 1 end

-- The mode of the lock, and the milliseconds until the hash expires. The mode is nil if the lock is free.
local function mode_of(lock, held)
  local mode, left = call('hget', lock, 'mode'), call('pttl', lock)
  if mode == 'read' or mode == 'write' then
    if mode == 'write' or not are_all_ours(call('hlen', lock), held) then holds_of(lock) end
    return mode, left
  end
  if mode then refuse('WRONGTYPE this hash is not a read-write lock') end
  if left ~= -2 then refuse('INUSE the name is in use as a mutex, so it cannot be used as a read-write lock') end
  return nil, left
end

-- The number of readers that hold the lock, the milliseconds until the last of them expires (-1 if it never expires), and
-- the dead readers. A reader of ours is dead if none of its holds has a key.
--
-- A reader of another library holds the lock as long as the hash exists. A multi lock of Redisson gives its lease to the
-- hash only, so the keys of its holds can expire before.
-- `left_of_lock` is the ttl of the hash.
local function readers(lock, prefix, left_of_lock, except)
  local fields, alive, longest, dead, never_expires = holds_of(lock), 0, 0, {}, false
  for i = 1, #fields, 2 do
    local owner, holds = fields[i], number_of_holds(fields[i + 1])
    if owner ~= 'mode' and owner ~= except and string.sub(owner, -6) ~= ':write' then
      local left = 0
      for number = 1, holds do left = math.max(left, call('pttl', hold_key(prefix, owner, number))) end
      if not is_ours(owner) then left = left_of_lock == -1 and -1 or math.max(left, left_of_lock) end
      -- One check is enough: all readers have the same slot.
      if left == 0 and #dead == 0 then check_absent(hold_key(prefix, owner, 1)) end
      if left ~= 0 then
        alive, longest, never_expires = alive + 1, math.max(longest, left), never_expires or left == -1
      else
        dead[#dead + 1] = owner
      end
    end
  end
  return alive, never_expires and -1 or longest, dead
end

-- Removes the fields of these dead readers, or of some of them if they are many.
local function remove_dead(lock, held, dead)
  for i = 1, math.min(#dead, MAX_REMOVED) do
    call('hdel', lock, dead[i])
    try('hdel', held, dead[i])
  end
end

-- Removes the fields of dead readers. If no reader is alive, frees the lock. Returns the number of readers that hold the
-- lock, and the milliseconds until the last of them expires (-1 if it never expires).
local function live_readers(lock, held, prefix, left)
  local alive, longest, dead = readers(lock, prefix, left)
  if alive == 0 then
    call('del', lock, held)
  else
    remove_dead(lock, held, dead)
  end
  return alive, longest
end

-- Whether this step reads all readers. It does if a reader is not ours: Redisson lowers the ttl of the hash below the
-- holds of others. If all readers are ours, the hash expires with the longest hold, so one step of many is enough. It
-- removes the readers that have died. A lock with few readers is always read, so a release never leaves a hash without
-- readers. `left` is the ttl of the hash.
--
-- `held` can have fields of earlier readers of ours, if Redisson has deleted the hash. Then the numbers can be equal
-- although readers of Redisson hold the lock. They hold it as long as the hash exists, so what `some_readers` returns is
-- right. And the ttl of `held` shows whether Redisson has lowered the ttl of the hash: it is never below a hold of ours.
local function reads_all(lock, held, left)
  local fields = call('hlen', lock)
  if not are_all_ours(fields, held) or MICROS % fields < READERS_PER_STEP then return true end
  return left >= 0 and call('pttl', held) > left + SAME_MS
end

-- Does what `live_readers` does, or returns what the ttl of the hash says. `left` is this ttl.
local function some_readers(lock, held, prefix, left)
  if reads_all(lock, held, left) then return live_readers(lock, held, prefix, left) end
  return 1, left
end
