-- Reads records, and checks which owners hold their locks, all at the same moment.
--
-- KEYS: record, ..., lock, ...
-- ARGV: owner, ... (one for each lock)
-- Reply: the time in µs
--        for each record {version, value}, or {} if it does not exist
--        for each lock 1 if this owner holds it, or 0
--        or the error of this record or lock; the others are still handled

local keys, args, call, try = KEYS, ARGV, redis.call, redis.pcall
local time = call('time')
local replies = { time[1] * 1000000 + time[2] }

local records = #keys - #args
for i = 1, records do
  local reply = try('hmget', keys[i], 'v', 'b')
  if not reply.err and not reply[1] then
    reply = {}
    if try('pttl', keys[i]) ~= -2 then
      reply = redis.error_reply('WRONGTYPE the key holds a hash that is not a record')
    end
  end
  replies[1 + i] = reply
end
for i = 1, #args do
  replies[1 + records + i] = holds(keys[records + i], args[i])
end
return replies
