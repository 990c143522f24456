-- The holders of a read-write lock. The lock is a hash with the field `mode`, and one field for each owner. The field of
-- a writer ends with `:write`. Each hold of a reader also has a key of its own with the ttl of this hold.

-- The format of an owner is a UUID, a colon and a number.
local OWNER = '^' .. string.rep('%x', 8) .. string.rep('%-' .. string.rep('%x', 4), 4) .. string.rep('%x', 8) .. ':%-?%d+$'
-- Not more than this number of holds of one reader is read.
local MAX_HOLDS = 1000

local function writer(owner) return owner .. ':write' end
local function hold_key(prefix, owner, number) return prefix .. owner .. ':rwlock_timeout:' .. number end

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

-- The mode of the lock, and the milliseconds until the hash expires. The mode is nil if the lock is free.
local function mode_of(lock)
  local mode, left = call('hget', lock, 'mode'), call('pttl', lock)
  if mode == 'read' or mode == 'write' then
    holds_of(lock)
    return mode, left
  end
  if mode then refuse('WRONGTYPE this hash is not a read-write lock') end
  if left ~= -2 then refuse('INUSE the name is in use as a mutex, so it cannot be used as a read-write lock') end
  return nil, left
end

-- The number of readers that are alive, the milliseconds until the last of them expires, and the dead readers. A reader
-- is dead if none of its holds has a key.
local function readers(lock, prefix, except)
  local fields, alive, longest, dead = holds_of(lock), 0, 0, {}
  for i = 1, #fields, 2 do
    local owner, holds = fields[i], number_of_holds(fields[i + 1])
    if owner ~= 'mode' and owner ~= except and string.sub(owner, -6) ~= ':write' then
      local left = 0
      for number = 1, holds do left = math.max(left, call('pttl', hold_key(prefix, owner, number))) end
      if left > 0 then
        alive, longest = alive + 1, math.max(longest, left)
      else
        dead[#dead + 1] = owner
      end
    end
  end
  return alive, longest, dead
end

-- Removes the fields of dead readers. If no reader is alive, frees the lock. Returns what `readers` returns.
local function live_readers(lock, held, prefix)
  local alive, longest, dead = readers(lock, prefix)
  if alive == 0 then
    call('del', lock, held)
  else
    for _, owner in ipairs(dead) do
      call('hdel', lock, owner)
      try('hdel', held, owner)
    end
  end
  return alive, longest
end
