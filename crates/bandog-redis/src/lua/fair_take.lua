-- A claim of a fair lock. For the keys and arguments, see fair_claim.lua.

-- Adds the owner to the end of the queue. The deadline is Redisson's.
local function join(queue, deadlines, waiting, owner, left)
  local last = call('lindex', queue, -1)
  local deadline = last and last ~= owner and expiry(deadlines, last) or NOW + math.max(left, 0)
  write({
    { 'zadd', waiting, text(NOW + PLACE_MS), owner, undo = { 'zrem', waiting, owner } },
    { 'pexpire', waiting, 2 * PLACE_MS },
    { 'zadd', deadlines, text(deadline + WAIT_MS), owner, undo = { 'zrem', deadlines, owner } },
    { 'rpush', queue, owner },
  })
end

-- Refuses the claim. Keeps its place, or adds it to the queue if it joins.
local function refused(queue, deadlines, waiting, owner, joins, left, first)
  local deadline = expiry(deadlines, owner)
  -- The list can be lost without the deadlines, and the other way round. Then the owner joins again.
  if deadline and first then
    keep_place(queue, deadlines, waiting, owner, deadline)
  elseif joins == '1' then
    join(queue, deadlines, waiting, owner, left)
  else
    deadline = nil
  end
  local reply = busy(left)
  if left == -2 then
    reply = busy(first and (is_ours(first) and expiry(waiting, first) or expiry(deadlines, first)) - NOW or PLACE_MS)
  end
  local ahead = (deadline or joins == '1') and try('zrank', deadlines, owner)
  return type(ahead) == 'number' and { reply, ahead } or reply
end

-- Brings all deadlines nearer by the time for one claim, as Redisson does after a grant. `deadline` is the deadline of the
-- claim that was granted. If the deadlines have stayed for a while, it was too far away, and all others are, too. No
-- deadline comes nearer than its margin: the claim that was granted can have waited longer than the time for one claim.
local function bring_nearer(queue, deadlines, deadline, stayed)
  local claims = 1
  if try('del', stayed) == 1 then claims = 1 + math.max(0, math.floor((deadline - NOW - WAIT_MS) / WAIT_MS)) end
  local others = call('zrangebyscore', deadlines, '-inf', '+inf', 'withscores')
  local ahead = #others > 0 and positions(queue)
  for i = 1, #others, 2 do
    local before = tonumber(others[i + 1])
    local after = math.max(before - claims * WAIT_MS, math.min(before, NOW + margin(ahead[others[i]] or (i - 1) / 2)))
    if after ~= before then try('zincrby', deadlines, text(after - before), others[i]) end
  end
end

-- The numbers of the claims of the same client at the head of the queue. An owner begins with the UUID of its client, which
-- has 36 characters, and a colon.
local function followers(queue, owner)
  local client, numbers = string.sub(owner, 1, 37), {}
  local first = try('lindex', queue, 0)
  if type(first) ~= 'string' or string.sub(first, 1, 37) ~= client then return numbers end
  for i, other in ipairs(try('lrange', queue, 0, MAX_FOLLOWERS - 1)) do
    if string.sub(other, 1, 37) ~= client then break end
    numbers[i] = tonumber(string.sub(other, 38))
  end
  return numbers
end

local function claim(k, a)
  local token, lock, held = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3]
  local queue, deadlines, waiting, stayed = KEYS[k + 4], KEYS[k + 5], KEYS[k + 6], KEYS[k + 7]
  local owner, ttl, fences, joins, starving = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4], ARGV[a + 5]
  local left, is_offered = call('pttl', lock), false
  if left ~= -2 then
    if call('hexists', lock, owner) == 1 then
      local fence = tonumber(stored_fence(token) or '')
      call('pexpire', lock, ttl)
      call('pexpire', held, ttl)
      if fence then return fence end
      fence = next_fence(token, fences)
      call('set', token, text(fence))
      return fence
    end
    if call('hexists', lock, 'mode') == 1 then
      refuse('INUSE the name is in use as a read-write lock, so it cannot be used as a mutex')
    end
    is_offered = starving ~= '' and call('hexists', lock, OFFERED) == 1
  end
  local first, is_new, deadline, place = first_in_queue(queue, deadlines, waiting)
  if is_new and first and first ~= owner and left == -2 then notify_next(queue, first) end
  if left ~= -2 and not is_offered or first and first ~= owner then
    return refused(queue, deadlines, waiting, owner, joins, left, first)
  end

  local last = next_fence(token, fences)
  local commands = {
    -- The first command changes nothing. It checks the memory limit and the right: see claim.lua.
    is_offered and { 'hset', lock, OFFERED, 1 } or { 'set', lock, '', 'xx' },
    { 'del', lock, held },
    { 'hset', lock, owner, 1, undo = { 'del', lock } },
    { 'pexpire', lock, ttl },
    { 'hset', held, owner, text(last), undo = { 'del', held } },
    { 'pexpire', held, ttl },
    { 'set', token, text(last) },
  }
  if first then
    commands[#commands + 1] = { 'zrem', deadlines, owner, undo = { 'zadd', deadlines, text(deadline), owner } }
    commands[#commands + 1] = { 'zrem', waiting, owner, undo = { 'zadd', waiting, text(place), owner } }
    commands[#commands + 1] = { 'lpop', queue }
  end
  write(commands)
  if first and not may_stay(deadlines, waiting, stayed) then bring_nearer(queue, deadlines, deadline, stayed) end
  local numbers = first and followers(queue, owner) or {}
  if #numbers == 0 then return last end
  return { last, unpack(numbers) }
end
