-- A semaphore in the layout of Redisson's RSemaphore. `lock` is the number of permits that are not taken, and is
-- Redisson's. Redisson does not know the other keys: `plain` has the fence and the number of permits of each claim of
-- ours, and the field `limit`. `leases` has the time at which each of these claims expires. They have no ttl: the
-- permits of a claim that has expired return only because these keys name the claim.

-- The fence and the number of permits of a claim. Nil if it has none.
local function own_permits(plain, owner)
  local fence, take = string.match(call('hget', plain, owner) or '', '^(%d+) (%d+)$')
  return tonumber(fence), tonumber(take)
end

-- The number of all permits. Nil if it is unknown.
local function known_limit(plain)
  return tonumber(call('hget', plain, 'limit') or nil)
end

-- The number of permits that claims of ours have.
local function taken_by_us(plain)
  local fields, taken = call('hgetall', plain), 0
  for i = 2, #fields, 2 do taken = taken + (tonumber(string.match(fields[i], '^%d+ (%d+)$')) or 0) end
  return taken
end

-- Removes claims of ours, and adds their permits to the permits that are not taken. Returns the number of these permits.
-- `lock` is nil if the semaphore does not exist. If the server refuses a command, nothing changes.
local function return_permits(lock, plain, leases, owners)
  local commands, sum = {}, 0
  for _, owner in ipairs(owners) do
    local value, until_ms = call('hget', plain, owner), call('zscore', leases, owner)
    local fence, take = own_permits(plain, owner)
    sum = sum + (take or 0)
    commands[#commands + 1] = { 'zrem', leases, owner, undo = until_ms and { 'zadd', leases, until_ms, owner } }
    commands[#commands + 1] = { 'hdel', plain, owner, undo = value and { 'hset', plain, owner, value } }
  end
  if lock then commands[#commands + 1] = { 'incrby', lock, sum } end
  write(commands)
  return sum
end

-- Returns the permits of our claims that have expired. Returns the new number of permits that are not taken.
local function recycle_plain(lock, plain, leases, channel, available)
  local expired = call('zrangebyscore', leases, '-inf', text(NOW))
  if #expired == 0 then return available end
  -- This command changes nothing. It checks the memory limit: see `extend`.
  if available then call('incrby', lock, 0) end
  local sum = return_permits(available and lock, plain, leases, expired)
  if not available then return nil end
  if available + sum > 0 then publish(channel, text(available + sum)) end
  return available + sum
end

-- Lets a claim expire after this time, unless it expires later. ZREM removes nothing: it is a command that the server never
-- refuses at its memory limit, see `extend`.
local function extend_plain(leases, owner, ttl)
  call('zrem', leases, '')
  expire_later(leases, owner, NOW + ttl)
end

-- Refuses a name that is in use as the other kind of semaphore. `permits` are the permits of that kind.
local function check_plain(permits)
  if call('zcard', permits) > 0 then
    refuse('INUSE the name is in use as a semaphore with leases, so it cannot be used with semaphores=plain')
  end
end

