-- The permits of a semaphore. `lock` is the number of permits that are not taken. `permits` has the time at which each
-- permit that is taken expires; the member is the id of the permit. Both keys are Redisson's. `held` has the fence and
-- the ids of each claim of ours. Redisson does not know this key.

-- Redisson's time for a permit that never expires.
local NEVER = 922337203685477
local ID_BYTES = 16
-- Time for which the limit before the last change is accepted after its last use: 30 days.
local FORMER_MS = 30 * 24 * 3600 * 1000

-- The ids in this text.
local function ids_in(joined)
  local ids = {}
  for from = 1, #joined, ID_BYTES do ids[#ids + 1] = string.sub(joined, from, from + ID_BYTES - 1) end
  return ids
end

-- The number of permits that are not taken. Nil if the semaphore does not exist.
local function available_permits(lock)
  local available = call('get', lock)
  if not available then return nil end
  if not string.find(available, '^%-?%d+$') then refuse('WRONGTYPE the value is not a number of permits') end
  return tonumber(available)
end

-- Refuses the name of a latch. Our latches have the key `operations`, and our semaphores have a token. If the user has no
-- right for the key, this is not checked.
local function check_latch(token, operations)
  if call('get', token) then return end
  local left = try('pttl', operations)
  if type(left) == 'number' and left ~= -2 then
    refuse('INUSE the name is in use as a latch, so it cannot be used as a semaphore')
  end
end

-- Returns the permits that have expired to the semaphore, as Redisson does. Returns the new number of permits that are
-- not taken.
local function recycle(lock, permits, held, channel, available)
  local expired = call('zrangebyscore', permits, 0, text(NOW), 'withscores')
  if #expired == 0 then return available end
  if available then
    -- This command changes nothing. It checks the memory limit: see `extend`.
    call('incrby', lock, 0)
    available = available + #expired / 2
  end
  give_back(available and lock, permits, expired)
  if available and available > 0 then publish(channel, text(available)) end
  local fences = call('hgetall', held)
  for i = 1, #fences, 2 do
    local from = string.find(fences[i + 1], ' ', 1, true) or 0
    if not call('zscore', permits, string.sub(fences[i + 1], from + 1, from + ID_BYTES)) then
      call('hdel', held, fences[i])
    end
  end
  return available
end

-- Lets each of these permits expire after this time, unless it expires later. Permits that are not taken stay so.
--
-- At its memory limit, Redis refuses ZADD and INCRBY, but only if they are the first write of a script. So a command that
-- Redis never refuses comes first wherever a hold is extended or ended, or a place is kept.
local function extend(permits, held, ids, lasts)
  call('pexpire', held, math.max(call('pttl', held), lasts))
  for _, id in ipairs(ids) do expire_later(permits, id, NOW + lasts) end
end

-- Keeps the place of a claim. A claim without a place gets the last one.
local function keep_place(waiting, order, owner)
  write({
    { 'pexpire', waiting, PLACE_MS },
    { 'zadd', waiting, text(NOW + PLACE_MS), owner, undo = { 'zrem', waiting, owner } },
    { 'pexpire', waiting, PLACE_MS },
    { 'zadd', order, 'nx', text(MICROS), owner, undo = { 'zrem', order, owner } },
    { 'pexpire', order, PLACE_MS },
  })
end

-- Whether this claim has a place.
local function has_place(waiting, owner)
  local until_ms = call('zscore', waiting, owner)
  return until_ms and tonumber(until_ms) > NOW
end

-- Renews a claim without permits. The reply of a renewal: 2 if the claim has a place, which is kept, or 0.
local function renew_place(waiting, order, owner)
  if not has_place(waiting, owner) then return 0 end
  keep_place(waiting, order, owner)
  return 2
end

-- Releases a claim without permits. The reply of a release: -4 if the claim had a place, which is removed, or -1.
local function leave(waiting, order, owner, channel, available)
  local had_place = has_place(waiting, owner)
  if not had_place or call('zrem', waiting, owner) == 0 then return -1 end
  call('zrem', order, owner)
  -- Other claims no longer have to wait for this one.
  if available and available > 0 then publish(channel, text(available)) end
  return -4
end

-- Checks the limit that the claim expects.
local function check_limit(former, take, expected, limit)
  if take > expected then
    refuse('MISUSED the semaphore has ' .. text(expected) .. ' permits, so a claim cannot take ' .. text(take))
  end
  if expected ~= limit then
    if call('get', former) ~= text(expected) then
      refuse('MISUSED the semaphore has ' .. text(limit) .. ' permits in the store, and this client says that it has '
        .. text(expected) .. '; give the number of the store, or change it with `set_limit` (`bandog limit NAME N`)')
    end
    call('pexpire', former, FORMER_MS)
  end
  if take > limit then
    refuse('MISUSED the semaphore has ' .. text(limit) .. ' permits, so a claim cannot take ' .. text(take))
  end
end

-- The first claim that has a place. Removes the places that have expired. Nil if no claim has a place.
local function first_place(waiting, order)
  local function first() return call('zrangebyscore', order, '-inf', '+inf', 'limit', 0, 1)[1] end
  local before = first()
  if not before then return nil end
  local expired = call('zrangebyscore', waiting, '-inf', text(NOW))
  if #expired == 0 then return before end
  for _, owner in ipairs(expired) do
    call('zrem', waiting, owner)
    call('zrem', order, owner)
  end
  return first()
end

-- Refuses the claim. If it starves and joins, it gets a place. `first` is the first claim that has a place.
local function refused(permits, waiting, order, owner, starves, joins, first)
  if starves == '1' and joins == '1' or first and has_place(waiting, owner) then keep_place(waiting, order, owner) end
  local next_end = call('zrangebyscore', permits, '-inf', '+inf', 'withscores', 'limit', 0, 1)[2]
  if next_end then
    next_end = tonumber(next_end)
    if next_end >= NEVER then return busy(-1) end
    return busy(next_end - NOW)
  end
  local until_ms = first and first ~= owner and call('zscore', waiting, first)
  return busy(until_ms and tonumber(until_ms) - NOW or PLACE_MS)
end
