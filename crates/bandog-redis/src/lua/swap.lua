-- Replaces, creates or deletes whole records. A swap is the change of one record. It is done only if the record's
-- version has not changed and the conditions of the swap are true. There are two conditions: a time before which the
-- swap must not be done, and a holding, that is, an owner that must hold its lock.
--
-- KEYS: index, lock, ... (one for each holding); then for each swap: record, and history if it is not plain
-- ARGV: holdings, owner, ... (one for each holding); then for each swap: from, not before in ms, holding, lines, value,
--       and if it is not plain: name, slot, text, ... (one for each line); then for each swap that notifies: its number
--       from 1, and the channel
--       (`from` is the expected version, or empty if the record must not exist; `holding` is the number of a holding
--       from 1, or 0 for none; `lines` is the number of history lines, or -1 to delete the record, or `=` for a plain
--       swap, which replaces an existing record and has no lines)
-- Reply: the time in µs, and for each swap
--        > 0: done, the new version of the record
--        0: done, the record is deleted
--        < 0: too early, minus the remaining µs
--        nil: the owner of the holding does not hold its lock
--        {version, value}: the record has this other version, or {}: it does not exist
--        or the error of this swap; the other swaps are still handled
--
-- If the server refuses a command, the swap changes nothing. A plain swap is one write. For the other swaps, see the
-- order of the writes in `write`, `make` and `delete`.

local keys, args, call, try = KEYS, ARGV, redis.call, redis.pcall
local index = keys[1]

local time = call('time')
local now = time[1] * 1000000 + time[2]
local now_text = string.format('%.0f', now)

-- The result for each holding: 1 if its owner holds its lock, 0 if not, or the error.
local holdings = tonumber(args[1])
local stands = { ['0'] = 1 }
for i = 1, holdings do
  stands[tostring(i)] = holds(keys[1 + i], args[1 + i])
end

-- The version that follows this version, as a number and as text. Lua's numbers are doubles, so beyond 2^53 a version
-- could stop rising.
local function after(from)
  local version = from + 1
  if version <= now then return now, now_text end
  if version >= 2 ^ 53 then return nil end
  return version, string.format('%.0f', version)
end

-- The reply for a record that does not have the expected version.
local function instead(record, version)
  if type(version) == 'table' then return version end
  if version then return { version, try('hget', record, 'b') } end
  if try('pttl', record) ~= -2 then
    return redis.error_reply('WRONGTYPE the key holds a hash that is not a record')
  end
  return {}
end

local function corrupt(record)
  return redis.error_reply('CORRUPT the version of the record at ' .. record .. ' cannot be incremented')
end

-- The reply if the record has the expected version and a condition is false. Nil if both conditions are true.
local function unmet(before, holding)
  local missing = before * 1000 - now
  if missing > 0 then return -missing end
  local held = stands[holding]
  if held ~= 1 then return held ~= 0 and held end
end

-- Writes the history before the record: if the history is not a hash, the record stays unchanged. The right to write
-- and the memory limit are checked at the first write. If it succeeds, the later writes succeed, too.
local function write(record, history, text, value, lines, at)
  for i = 1, lines do
    local done = try('hset', history, args[at + 2 * i - 1], args[at + 2 * i])
    if type(done) == 'table' then return done end
  end
  return try('hset', record, 'v', text, 'b', value)
end

local function replace(record, history, from, before, holding, lines, value, at)
  local found = try('hget', record, 'v')
  if found ~= from then return instead(record, found) end
  local no = unmet(before, holding)
  if no ~= nil then return no end
  local version, text = after(from)
  if not version then return corrupt(record) end
  local done = write(record, history, text, value, lines, at)
  if type(done) == 'table' then return done end
  return version
end

local function make(record, history, before, holding, lines, value, name, at)
  local found = call('hget', record, 'v')
  if found or call('pttl', record) ~= -2 then return instead(record, found) end
  local no = unmet(before, holding)
  if no ~= nil then return no end
  if lines < 0 then return 0 end
  call('hexists', history, '')
  -- The next two commands change nothing, except that DEL deletes history lines that have no record. SET XX finds no
  -- key. At the memory limit Redis refuses SET. Redis checks the limit only at the first write of a script, so the
  -- later writes succeed. If this DEL succeeds, the DEL below will also succeed if it must undo the commands before it.
  call('set', record, '', 'XX')
  call('del', record, history)
  local done = write(record, history, now_text, value, lines, at)
  if type(done) ~= 'table' then done = try('sadd', index, name) end
  if type(done) ~= 'table' then return now end
  call('del', record, history)
  return done
end

local function delete(record, history, from, before, holding, name)
  local found = call('hget', record, 'v')
  if found ~= from then return instead(record, found) end
  local no = unmet(before, holding)
  if no ~= nil then return no end
  call('hexists', history, '')
  call('srem', index, name)
  local done = try('del', record, history)
  if type(done) ~= 'table' then return 0 end
  try('sadd', index, name)
  return done
end

local replies = { now }
local k, a, count = 2 + holdings, 2 + holdings, 1
while k <= #keys do
  local record, from, before, holding, lines, value =
    keys[k], args[a], args[a + 1], args[a + 2], args[a + 3], args[a + 4]
  local reply
  k, a, count = k + 1, a + 5, count + 1
  if lines == '=' then
    reply = replace(record, nil, from, before, holding, 0, value)
  else
    local history, name, at, number = keys[k], args[a], a, tonumber(lines)
    k, a = k + 1, a + 1 + 2 * math.max(number, 0)
    if from == '' then
      reply = attempt(make, record, history, before, holding, number, value, name, at)
    elseif number < 0 then
      reply = attempt(delete, record, history, from, before, holding, name)
    else
      reply = replace(record, history, from, before, holding, number, value, at)
    end
  end
  replies[count] = reply
end
-- Notifies when all swaps are done. If a notification is refused, the swap still succeeds.
while args[a] do
  local reply = replies[1 + tonumber(args[a])]
  if type(reply) == 'number' and reply >= 0 then try('publish', args[a + 1], '0') end
  a = a + 2
end
return replies
