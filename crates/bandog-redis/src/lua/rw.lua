-- The holders of a read-write lock. The lock is a hash with the field `mode`, and one field for each owner. The field of
-- a writer ends with `:write`. Each hold of a reader also has a key of its own with the ttl of this hold.

local function writer(owner) return owner .. ':write' end
local function hold_key(prefix, owner, number) return prefix .. owner .. ':rwlock_timeout:' .. number end

-- The mode of the lock, and the milliseconds until the hash expires. The mode is nil if the lock is free.
local function mode_of(lock)
  local mode, left = call('hget', lock, 'mode'), call('pttl', lock)
  if mode == 'read' or mode == 'write' then return mode, left end
  if mode then refuse('WRONGTYPE this hash is not a read-write lock') end
  if left ~= -2 then refuse('INUSE the name is in use as a mutex, so it cannot be used as a read-write lock') end
  return nil, left
end

-- The number of readers that are alive, the milliseconds until the last of them expires, and the dead readers. A reader
-- is dead if none of its holds has a key.
local function readers(lock, prefix, except)
  local fields, alive, longest, dead = call('hgetall', lock), 0, 0, {}
  for i = 1, #fields, 2 do
    local owner, holds = fields[i], tonumber(fields[i + 1])
    if holds and owner ~= except and string.sub(owner, -6) ~= ':write' then
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
