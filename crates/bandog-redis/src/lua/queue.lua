-- The claims that wait in the queue of a fair lock. `queue` is the list of their owners, and `deadlines` has the time at
-- which each of them is given up: both are Redisson's. `waiting` has the time at which the places of our own claims
-- expire. Redisson does not know this key.

-- Redisson's time for one claim at the head of the queue. A new claim gets the deadline of the claim before it, plus
-- this time. If a claim leaves the queue, this time is taken off the deadlines of the claims behind it.
local WAIT_MS = 300000
-- Minimum time until the deadline of a waiting claim of ours, if no claim is before it. Redisson would remove the claim at
-- its deadline, although it still waits.
local NEAR_MS = 60000

-- Maximum number of claims that the answer to a granted claim names.
local MAX_FOLLOWERS = 63

-- Up to this length of the queue, each change of the deadlines is done at once.
local SHORT_QUEUE = 8
-- A day.
local STAYED_MS = 24 * 3600 * 1000

-- The time at which a place expires or a claim is given up. Nil if the owner has none.
local function expiry(zset, owner)
  local score = call('zscore', zset, owner)
  return score and tonumber(score)
end

-- Brings the deadlines nearer: of the owners from the position `from` to the end of the list, each by `claims` times
-- WAIT_MS.
local function advance(deadlines, owners, from, claims)
  for i = from, #owners do call('zadd', deadlines, 'xx', 'incr', -claims * WAIT_MS, owners[i]) end
end

-- Whether the deadlines need not come nearer now. In a long queue of our own claims this would take long, and no claim is
-- removed because of its deadline. If a claim of another library joins, the next grant brings all deadlines nearer. The
-- key `stayed` marks such a queue.
local function may_stay(deadlines, waiting, stayed)
  local length = call('zcard', deadlines)
  if length <= SHORT_QUEUE or length > call('zcard', waiting) then return false end
  return not try('set', stayed, '', 'px', STAYED_MS).err
end

-- Removes our claims whose places have expired. Returns whether there were any. The list is changed first: an owner in the
-- list without a deadline would block Redisson forever if a command were refused.
local function remove_expired(queue, deadlines, waiting)
  local expired = call('zrangebyscore', waiting, '-inf', text(NOW))
  if #expired == 0 then return false end
  local is_expired, before = {}, 0
  for _, owner in ipairs(expired) do is_expired[owner] = true end
  for _, owner in ipairs(call('lrange', queue, 0, -1)) do
    if is_expired[owner] then
      before = before + 1
      call('lrem', queue, 1, owner)
      call('zrem', deadlines, owner)
    elseif before > 0 then
      advance(deadlines, { owner }, 1, before)
    end
  end
  for _, owner in ipairs(expired) do call('zrem', waiting, owner) end
  return true
end

-- The owner that is next, whether this step has made it the first, its deadline, and the time at which its place expires.
-- The place is nil for a claim of another library. Removes our claims whose places have expired, and claims of other
-- libraries at the head whose deadlines are over, as Redisson does.
local function first_in_queue(queue, deadlines, waiting)
  local before = call('lindex', queue, 0)
  if not before then return nil, false end
  local removed, first, deadline, place = 0, before, nil, nil
  if remove_expired(queue, deadlines, waiting) then first = call('lindex', queue, 0) end
  while first do
    deadline, place = expiry(deadlines, first), is_ours(first) and expiry(waiting, first) or nil
    local is_alive = deadline and deadline - removed * WAIT_MS > NOW
    if is_ours(first) then is_alive = deadline and place and place > NOW end
    if is_alive then break end
    -- The place of our claim has expired so long ago that `waiting` has forgotten it.
    if is_ours(first) and deadline then removed = removed + 1 end
    call('lpop', queue)
    call('zrem', deadlines, first)
    first = call('lindex', queue, 0)
  end
  if removed > 0 then
    advance(deadlines, call('lrange', queue, 0, -1), 1, removed)
    deadline = deadline and deadline - removed * WAIT_MS
  end
  return first or nil, first ~= before, deadline, place
end

-- Notifies an owner that is next because this step has removed the owner before it. A waiter of Redisson sleeps until the
-- ttl or the deadline that it has seen. The channel ends with the name of the lock, as the key of the queue does.
local function notify_next(queue, first)
  publish('redisson_lock__channel:' .. string.sub(queue, #'redisson_lock_queue:' + 1) .. ':' .. first, '0')
end

-- The minimum time until the deadline of a claim of ours with this number of claims before it. Each grant before its own
-- takes WAIT_MS off its deadline.
local function margin(ahead) return NEAR_MS + ahead * WAIT_MS end

-- The number of claims before each owner in the list. Empty if the user has no right to read the list. The deadlines have
-- another order: those of our claims are put off, and those of the waiters of other libraries behind them are not.
local function positions(queue)
  local ahead = {}
  for i, owner in ipairs(try('lrange', queue, 0, -1)) do ahead[owner] = i - 1 end
  return ahead
end

-- Puts off the deadlines of all claims of ours, at least to the deadlines that they would get if they joined now. So the
-- deadlines of our claims have the order of the queue afterwards, too.
local function put_off(deadlines, ahead)
  local owners = call('zrangebyscore', deadlines, '-inf', '+inf', 'withscores')
  for i = 1, #owners, 2 do
    local deadline = NOW + ((ahead[owners[i]] or (i - 1) / 2) + 1) * WAIT_MS
    if is_ours(owners[i]) and tonumber(owners[i + 1]) < deadline then
      call('zadd', deadlines, 'xx', text(deadline), owners[i])
    end
  end
end

-- Keeps the place of a claim that is in the queue. At its memory limit, Redis refuses ZADD, but only if it is the first
-- write of a script.
local function keep_place(queue, deadlines, waiting, owner, deadline)
  call('pexpire', waiting, 2 * PLACE_MS)
  call('zadd', waiting, text(NOW + PLACE_MS), owner)
  call('pexpire', waiting, 2 * PLACE_MS)
  -- The position in the list is not greater than this rank, and takes longer to find.
  local rank = try('zrank', deadlines, owner)
  rank = type(rank) == 'number' and rank or 0
  if deadline - NOW >= margin(rank) or deadline - NOW >= margin(0) and call('lindex', queue, 0) == owner then return end
  local ahead = positions(queue)
  if deadline - NOW < margin(ahead[owner] or rank) then put_off(deadlines, ahead) end
end
