-- A release of a fair lock. For the keys and arguments, see fair_release.lua.

-- Notifies the owner that is next. If the queue cannot be read, the release still succeeds.
local function notify_first(queue, deadlines, waiting, owner, channel)
  local done, first = pcall(first_in_queue, queue, deadlines, waiting)
  if not done or not first then return 0 end
  local receivers = publish(channel .. ':' .. first, '0')
  -- An owner begins with the UUID of its client, which has 36 characters.
  if receivers > 0 and string.sub(first, 1, 37) == string.sub(owner, 1, 37) then return receivers - 1 end
  return receivers
end

-- Brings the deadlines of the owners behind this position nearer by the time for one claim, but not nearer than their
-- margins: several owners can leave in the time for one claim.
local function come_nearer(deadlines, owners, position)
  for i = position + 1, #owners do
    local before = expiry(deadlines, owners[i])
    local after = before and math.max(before - WAIT_MS, math.min(before, NOW + margin(i - 2)))
    if after ~= before then call('zadd', deadlines, 'xx', text(after), owners[i]) end
  end
end

-- Removes the owner from the queue. Returns whether it had a place.
--
-- The deadlines of the owners behind it are changed last. So they are not changed again if the removal is refused and
-- the release is repeated, and at the memory limit Redis does not refuse the first write.
local function leave(queue, deadlines, waiting, stayed, owner)
  if not expiry(deadlines, owner) then return false end
  local place = expiry(waiting, owner)
  local owners = may_stay(deadlines, waiting, stayed) and {} or call('lrange', queue, 0, -1)
  -- The first owner is removed without a search through the list.
  call('lrem', queue, call('lindex', queue, 0) == owner and 1 or 0, owner)
  call('zrem', deadlines, owner)
  call('zrem', waiting, owner)
  for i, other in ipairs(owners) do
    -- If this is refused, the owners behind keep later deadlines.
    if other == owner then pcall(come_nearer, deadlines, owners, i) end
  end
  return place and place > NOW
end

-- Frees the lock. If `notifies` is false, the caller notifies the owner that is next.
local function free(k, a, notifies)
  local lock, held, queue = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3]
  local deadlines, waiting, stayed = KEYS[k + 4], KEYS[k + 5], KEYS[k + 6]
  local owner, channel, starving = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3]
  if has_field(lock, owner) then
    call('del', lock, held)
    if take_note(starving) then offer(lock, OFFERED, 1) end
    return notifies and notify_first(queue, deadlines, waiting, owner, channel) or 0
  end
  take_note(starving)
  local was_first = call('lindex', queue, 0) == owner
  if not leave(queue, deadlines, waiting, stayed, owner) then return -1 end
  if was_first and call('pttl', lock) == -2 then notify_first(queue, deadlines, waiting, owner, channel) end
  return -4
end
