-- Takes each lock that is free, that its owner holds already, or that another owner, `from`, passes on to it.
--
-- KEYS: lock, token, ...
-- ARGV: owner, ttl in ms, fences, from, ... (`from` is empty for none)
-- Reply: for each lock; without a list around it if there is only one
--        > 0: granted, the last fence of the reserved block
--        < 0: busy, minus the milliseconds that somebody else's hold lasts
--        or the error, which stops none of the others
--
-- A command that is refused leaves nothing behind: see the order of the last lines of `claim`.

local function claim(lock, token, owner, ttl, fences, from)
  local left = redis.call('pttl', lock)
  local held, passed = false, false
  if left ~= -2 then
    held = redis.call('hexists', lock, owner) == 1
    passed = not held and from ~= '' and redis.call('hexists', lock, from) == 1
    if not held and not passed then
      -- A hold without an end is looked at again in a second.
      if left == -1 then return -1000 end
      return -math.max(left, 1)
    end
  end

  -- Lua counts in doubles, so beyond 2^53 a fence could stop rising.
  local stored = redis.pcall('get', token)
  if type(stored) == 'table' and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
  local number = stored and type(stored) == 'string' and string.find(stored, '^%-?%d+$') and tonumber(stored)
  if stored and (not number or number + fences >= 2 ^ 53) then
    return redis.error_reply('CORRUPT the fencing token at ' .. token .. ' is not a number that can be counted on')
  end

  if held and number then
    redis.call('pexpire', lock, ttl)
    return number
  end

  local now = redis.call('time')
  local last = math.max((number or 0) + 1, now[1] * 1000000 + now[2]) + fences - 1

  -- What is refused here is refused before anything has changed: SET XX finds no key, HSET writes what stands there
  -- already. Both are refused for want of memory, which Redis checks only at the first write of a script.
  if left == -2 then
    redis.call('set', lock, '', 'XX')
  else
    redis.call('hset', lock, passed and from or owner, 1)
  end
  redis.call('del', lock)
  redis.call('hset', lock, owner, 1)
  -- From here on DEL is known to be allowed, so it can undo what follows.
  local done = redis.pcall('pexpire', lock, ttl)
  if done == 1 then done = redis.pcall('set', token, string.format('%.0f', last)) end
  if done.err then
    redis.call('del', lock)
    return done
  end
  return last
end

if #KEYS == 2 then return claim(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4]) end

local replies = {}
for i = 1, #KEYS / 2 do
  local k, a = 2 * i, 4 * i
  local done, reply = pcall(claim, KEYS[k - 1], KEYS[k], ARGV[a - 3], ARGV[a - 2], ARGV[a - 1], ARGV[a])
  -- Before version 7 Redis raised texts.
  if not done and type(reply) == 'string' then reply = redis.error_reply(reply) end
  replies[i] = reply
end
return replies
