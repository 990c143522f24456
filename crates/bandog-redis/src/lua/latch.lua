-- Sets, counts down or deletes a count-down latch. The latch has the layout of Redisson's RCountDownLatch.
--
-- KEYS: latch, operations
-- ARGV: id, action, number, remember in ms, channel, permits, leases, token, plain, former
--       (`permits` and `leases` exist while a claim has permits of a semaphore of this name, and each of the last three
--       can exist for a free semaphore; `action` is `set`, `down` or `delete`; `number` is the count to set or to
--       subtract, or 0)
-- Reply: {changed, count, receivers}: `changed` is 1 if this operation has changed the latch, else 0; `receivers` is -2
--        if the user has no right to publish, else a number of subscribers
--        or the error, for example because the key is not a latch. Then the latch is unchanged.
--
-- The sorted set `operations` has the operations that the server remembers. A member is `changed`, a space and the id.
-- Its score is the time in ms at which the operation is forgotten. The operation is written before the latch changes. If
-- the server refuses the change, the operation is removed again.
--
-- The set also shows that the number under this name is a latch. So while the latch is not open, the set expires
-- `SHOWN` ms after the time at which its last operation is forgotten.

local latch, operations = KEYS[1], KEYS[2]
local id, action, number, remember, channel = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local call, try = redis.call, redis.pcall
local SHOWN = 30 * 24 * 3600 * 1000

-- If the user has no right for the key, this is false.
local function exists(key)
  local left = try('pttl', key)
  return type(left) == 'number' and left ~= -2
end

local stored = call('get', latch)
if stored and not string.find(stored, '^%-?%d+$') then
  return redis.error_reply('WRONGTYPE the text of this key is not the count of a latch')
end
-- The number of a semaphore whose permits are held, or of a free semaphore. A number with a set of operations is a
-- latch, also if the name was once that of a lock and still has its token.
if stored and (exists(ARGV[6]) or exists(ARGV[7])
    or not exists(operations) and (exists(ARGV[8]) or exists(ARGV[9]) or exists(ARGV[10]))) then
  return redis.error_reply('INUSE the name is in use as a semaphore, so it cannot be used as a latch')
end
-- As in Redisson, a latch whose count is 0 or less is open, but exists.
local count = math.max(tonumber(stored or 0), 0)

for changed = 0, 1 do
  if call('zscore', operations, changed .. ' ' .. id) then return { changed, count, 0 } end
end

-- The command that changes the latch, the new count, and the message on the channel.
local command, after, message
if action == 'set' and not stored then
  command, after, message = { 'set', latch, number }, tonumber(number), '1'
elseif action == 'delete' and stored then
  command, after, message = { 'del', latch }, 0, '1'
elseif action == 'down' and stored and count <= tonumber(number) then
  -- Redisson's waiters poll without a pause if the message 0 comes while the count is not 0. So only the step that
  -- deletes the latch sends this message.
  command, after, message = { 'del', latch }, 0, count > 0 and '0'
elseif action == 'down' and stored then
  command, after = { 'decrby', latch, number }, count - tonumber(number)
end

local function is_error(reply) return type(reply) == 'table' and reply.err end

local time = call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reply = try('zremrangebyscore', operations, '-inf', now)
if is_error(reply) then return reply end
local left = remember
if (after or count) > 0 then
  left = remember + SHOWN
else
  -- A client with a longer timeout can have an operation that is remembered for longer than this one.
  local longer = try('zcount', operations, now + remember, '+inf')
  if is_error(longer) then return longer end
  if longer > 0 then
    local last = try('zrangebyscore', operations, now + remember, '+inf', 'withscores', 'limit', longer - 1, 1)
    if is_error(last) then return last end
    left = math.max(left, tonumber(last[2] or 0) - now)
  end
end
local member = (command and 1 or 0) .. ' ' .. id
reply = try('zadd', operations, now + remember, member)
if is_error(reply) then return reply end
reply = try('pexpire', operations, left)
if not is_error(reply) and command then reply = try(unpack(command)) end
if is_error(reply) then
  call('zrem', operations, member)
  return reply
end

local receivers = 0
if message then
  -- If the notification is refused, the operation still succeeds.
  receivers = try('publish', channel, message)
  if is_error(receivers) then receivers = -2 end
end
return { command and 1 or 0, after or count, receivers }
