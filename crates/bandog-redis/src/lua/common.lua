-- Functions that the scripts of several kinds of locks share, after those of offer.lua.

local call, try = redis.call, redis.pcall

-- Time for which the place of a waiting claim is kept.
local PLACE_MS = 5000

local time = call('time')
local MICROS = time[1] * 1000000 + time[2]
local NOW = math.floor(MICROS / 1000)

local function text(number) return string.format('%.0f', number) end

-- Whether this owner is a claim of bandog: a UUID of version 8, a colon and a number. The UUIDs of other libraries are of
-- other versions.
local function is_ours(owner)
  return string.find(owner, ':', 1, true) == 37 and string.sub(owner, 15, 15) == '8'
end

-- Ends the present step with this error.
local function refuse(message) error(redis.error_reply(message)) end

-- Calls `step` for each lock, and returns the replies; without a list around it if there is only one.
local function each(keys, args, step)
  local replies = {}
  for i = 0, #KEYS / keys - 1 do
    replies[i + 1] = attempt(step, i * keys, i * args)
  end
  if #replies == 1 then return replies[1] end
  return replies
end

-- Lets a key expire after this time, unless it expires later.
local function lengthen(key, ttl)
  if call('pttl', key) < tonumber(ttl) then call('pexpire', key, ttl) end
end

-- Lets a member of a sorted set expire at this time, unless it expires later. A member that does not exist stays so.
local function expire_later(set, member, until_ms)
  local score = call('zscore', set, member)
  if score and tonumber(score) < until_ms then call('zadd', set, text(until_ms), member) end
end

-- Runs these commands. If the server refuses a command, runs the field `undo` of each command before it, in reverse
-- order, and ends the step with the error.
local function write(commands)
  for i, command in ipairs(commands) do
    local done = try(unpack(command))
    if type(done) == 'table' and done.err then
      for before = i - 1, 1, -1 do
        if commands[before].undo then try(unpack(commands[before].undo)) end
      end
      error(done)
    end
  end
end

-- Ends the step with an error if the slot of this key is being moved between nodes of a Redis Cluster. This node does not
-- have the key, so another node may have it. A node refuses each command with several keys of such a slot if it does not
-- have them all. DEL deletes nothing here, because no key exists.
--
-- The server checks the keys in KEYS, and only these, before it runs a script. So a script calls this function before it
-- takes another missing key for a fact that matters: see names.rs.
local function check_absent(key)
  local other = key .. ':'
  while call('pttl', other) ~= -2 do other = other .. ':' end
  call('del', key, other)
end

-- Removes permits of a semaphore, and adds their number to the permits that are not taken. `found` has each permit and the
-- time at which it expires. `lock` is nil if the semaphore does not exist. If the server refuses a command, nothing
-- changes: if the number were changed first, the semaphore could get permits that it never had.
local function give_back(lock, permits, found)
  local commands, size = {}, 2000
  for from = 1, #found, size do
    local ids, scores = {}, {}
    for i = from, math.min(from + size - 1, #found), 2 do
      ids[#ids + 1] = found[i]
      scores[#scores + 1] = found[i + 1]
      scores[#scores + 1] = found[i]
    end
    local command = { 'zrem', permits, unpack(ids) }
    command.undo = { 'zadd', permits, unpack(scores) }
    commands[#commands + 1] = command
  end
  if lock then commands[#commands + 1] = { 'incrby', lock, #found / 2 } end
  write(commands)
end

-- Whether the lock is a hash with this field. A key of another type is in use as another kind of lock or by another
-- program, so no owner of this kind holds it.
local function has_field(lock, field)
  local found = try('hexists', lock, field)
  if type(found) == 'table' and not string.find(found.err, 'WRONGTYPE', 1, true) then error(found) end
  return found == 1
end

-- The text of the last fence that was reserved. False if there is none, and empty if the key has another type.
local function stored_fence(token)
  local stored = try('get', token)
  if type(stored) == 'string' then return stored end
  if stored and not string.find(stored.err, 'WRONGTYPE', 1, true) then error(stored) end
  return stored and ''
end

-- Reads the argument `fences`: the number of fences, and the number that they must exceed. The second number follows a
-- colon. It is nil if the argument does not have it.
local function fences_of(argument)
  return tonumber(string.match(argument, '^%d+')), tonumber(string.match(argument, ':(%d+)$') or '')
end

-- The last fence of a new block: the block begins at the greatest of the stored fence plus 1, the server's time, and
-- `above` plus 1, if `above` is given.
local function next_fence(token, fences, above)
  local stored = stored_fence(token)
  local number = stored and string.find(stored, '^%-?%d+$') and tonumber(stored)
  -- Lua's numbers are doubles, so beyond 2^53 a fence could stop rising.
  if stored and (not number or number + fences >= 2 ^ 53) then
    refuse('CORRUPT the fencing token at ' .. token .. ' is not a number that can be incremented')
  end
  return math.max((number or 0) + 1, MICROS, (above or 0) + 1) + fences - 1
end

-- The fence that this private key has for a hold. Nil if it has none.
local function own_fence(held, owner)
  local fence = call('hget', held, owner)
  return fence and tonumber(string.match(fence, '^%d+'))
end

-- The reply to a refused claim: minus the milliseconds after which it can be granted. -1 is the PTTL of a hold that
-- never expires. Then the client polls after a second.
local function busy(left)
  if left == -1 then return -1000 end
  return -math.max(left, 1)
end

-- Writes the note that a client starves. If the key has another type, it belongs to another application and is not
-- changed. If the user has no right for the key, the client waits without an offer. The same if another node of a Redis
-- Cluster may have the key: a second key would stop the move of the slot.
local function note_starving(starving)
  local noted = starving == '' or try('get', starving)
  if noted == false and pcall(check_absent, starving) or type(noted) == 'string' then
    try('set', starving, '', 'px', STARVING_MS)
  end
end

-- Removes the note that a client starves. Returns whether it existed.
local function take_note(starving)
  return starving ~= '' and type(try('get', starving)) == 'string' and try('del', starving) == 1
end

-- Reserves a free lock for starving clients for a short time. If this is refused, the lock stays free.
local function offer(lock, ...)
  if type(try('hset', lock, ...)) == 'number' and try('pexpire', lock, OFFER_MS) ~= 1 then call('del', lock) end
end

-- Publishes a message. Returns the number of its receivers, or -2 if the user has no right to publish.
local function publish(channel, message)
  local receivers = try('publish', channel, message)
  if type(receivers) == 'table' then return -2 end
  return receivers
end
