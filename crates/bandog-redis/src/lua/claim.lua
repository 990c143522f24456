-- Takes each lock for its owner, if the lock is free, if the owner already holds it, or if `from` holds it. `from` is
-- another owner that gives the lock to this owner.
--
-- KEYS: lock, token, ...
-- ARGV: owner, ttl in ms, fences, from, starving, ... (`fences` is their number; `from` is empty if not needed)
--
-- A quorum asks for fences above a number: then `fences` is the number of fences, a colon and this number. If the owner
-- holds the lock already, and its fences are not above the number, the hold gets new fences.
--
-- A client starves if it has waited for the lock for a second or more. Its claim names the key `starving`. In other
-- claims this argument is empty or, for a single lock, left out. If the lock is busy, the key is set for a short time.
-- The next release then makes an offer: it gives the lock to the owner OFFERED for a short time, and only starving
-- clients can take it. The key is not in KEYS, so that a user without the right for the key can take locks.
--
-- Reply: for each lock; without a list around it if there is only one
--        > 0: granted, the last fence of the reserved block
--        < 0: busy, minus the milliseconds until the other hold expires
--        or the error of this lock; the other locks are still handled
--
-- If the server refuses a command, no hold without a ttl or without a token stays behind: see the order of the commands
-- at the end of `claim`.

-- Whether the key `starving` can be set. If it has another type, it belongs to another application. If this node does not
-- have it, and its slot is being moved between nodes of a Redis Cluster, another node may have it: a second key would stop
-- the move. Then this node refuses DEL, which has two keys here and deletes nothing.
local function can_note(starving)
  local noted, other = redis.pcall('get', starving), starving .. ':'
  if noted == false and redis.pcall('pttl', other) == -2 then noted = redis.pcall('del', starving, other) end
  return type(noted) ~= 'table'
end

local function claim(lock, token, owner, ttl, fences, from, starving)
  local above = string.match(fences, ':(%d+)$')
  if above then fences, above = tonumber(string.match(fences, '^%d+')), tonumber(above) end
  local starves = from == '' and starving and starving ~= ''
  if starves then from = OFFERED end
  local left = redis.call('pttl', lock)
  local held, passed = false, false
  if left ~= -2 then
    held = redis.call('hexists', lock, owner) == 1
    passed = not held and from ~= '' and redis.call('hexists', lock, from) == 1
    if not held and not passed then
      if redis.call('hexists', lock, 'mode') == 1 then
        return redis.error_reply('INUSE the name is in use as a read-write lock, so it cannot be used as a mutex')
      end
      -- If the user has no right for the key, the client waits without an offer.
      if starves and can_note(starving) then redis.pcall('set', starving, '', 'px', STARVING_MS) end
      -- If the hold never expires, the client polls after a second.
      if left == -1 then return -1000 end
      return -math.max(left, 1)
    end
  end

  -- Lua's numbers are doubles, so beyond 2^53 a fence could stop rising.
  local stored = redis.pcall('get', token)
  if type(stored) == 'table' and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
  local number = stored and type(stored) == 'string' and string.find(stored, '^%-?%d+$') and tonumber(stored)
  if stored and (not number or number + fences >= 2 ^ 53) then
    return redis.error_reply('CORRUPT the fencing token at ' .. token .. ' is not a number that can be incremented')
  end

  if held and number then
    -- The fences of the hold are not used yet, so the new block can overlap them.
    if above and number < above + fences then
      number = above + fences
      redis.call('set', token, string.format('%.0f', number))
    end
    -- This claim can be late, and an answer to a renewal may have promised more time.
    if left < tonumber(ttl) then redis.call('pexpire', lock, ttl) end
    return number
  end

  local now = redis.call('time')
  local last = math.max((number or 0) + 1, now[1] * 1000000 + now[2], (above or 0) + 1) + fences - 1

  -- The next command changes nothing: SET XX finds no key, and HSET writes the value that the field already has. If the
  -- server refuses writes, it refuses this command. This includes a server at its memory limit: Redis checks the limit
  -- only at the first write of a script. So if this command succeeds, the later writes succeed, too.
  if left == -2 then
    redis.call('set', lock, '', 'XX')
  else
    redis.call('hset', lock, passed and from or owner, 1)
  end
  redis.call('del', lock)
  redis.call('hset', lock, owner, 1)
  -- This DEL has succeeded. So the DEL below will also succeed if it must undo the commands that follow.
  local done = redis.pcall('pexpire', lock, ttl)
  if done == 1 then done = redis.pcall('set', token, string.format('%.0f', last)) end
  if done.err then
    redis.call('del', lock)
    return done
  end
  -- If other clients starve for this lock, their next claims set the key again.
  if starves and type(redis.pcall('get', starving)) == 'string' then redis.pcall('del', starving) end
  return last
end

if #KEYS == 2 then return claim(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]) end

local replies = {}
for i = 1, #KEYS / 2 do
  local k, a = 2 * i, 5 * i
  replies[i] = attempt(claim, KEYS[k - 1], KEYS[k], ARGV[a - 4], ARGV[a - 3], ARGV[a - 2], ARGV[a - 1], ARGV[a])
end
return replies
