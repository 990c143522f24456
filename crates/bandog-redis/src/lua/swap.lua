-- Replaces, makes or deletes records, each whole and only if it is as it was read and its conditions hold.
--
-- KEYS: index, lock, ... (one for each holding); then for each swap: record, and history if it is not plain
-- ARGV: holdings, owner, ... (one for each holding); then for each swap: from, not before in ms, holding, lines, value,
--       and if it is not plain: name, slot, text, ... (one for each line); then for each swap that rings: its number
--       from 1, and the channel
--       (`from` is empty if there must be no record; `holding` counts from 1, 0 is none; `lines` is their number,
--       -1 to delete the record, or `=` for a plain swap: of a record that is there, and without lines)
-- Reply: the time in µs, and for each swap
--        > 0: done, the version that the record has now
--        0: done, there is no record any more
--        < 0: the time has not come, minus the µs that are missing
--        nil: the claim does not hold its lock
--        {version, value}: the record is another one, or {}: there is none
--        or the error, which stops none of the others
--
-- A command that is refused leaves nothing behind: a plain swap is one write, and see the order of those in `write`,
-- `make` and `delete`.

local keys, args, call, try = KEYS, ARGV, redis.call, redis.pcall
local index = keys[1]

local time = call('time')
local now = time[1] * 1000000 + time[2]
local now_text = string.format('%.0f', now)

-- Whether each holding stands: 1, 0 or the error.
local holdings = tonumber(args[1])
local stands = { ['0'] = 1 }
for i = 1, holdings do
  stands[tostring(i)] = try('hexists', keys[1 + i], args[1 + i])
end

-- The version that follows this one, as a number and as text. Lua counts in doubles, so beyond 2^53 it could stop
-- rising.
local function after(from)
  local version = from + 1
  if version <= now then return now, now_text end
  if version >= 2 ^ 53 then return nil end
  return version, string.format('%.0f', version)
end

-- What is there instead of the record that was expected.
local function instead(record, version)
  if type(version) == 'table' then return version end
  if version then return { version, try('hget', record, 'b') } end
  if try('pttl', record) ~= -2 then
    return redis.error_reply('WRONGTYPE the key holds a hash that is not a record')
  end
  return {}
end

local function corrupt(record)
  return redis.error_reply('CORRUPT the version of the record at ' .. record .. ' cannot be counted on')
end

-- What keeps a swap from being done though the record is as expected.
local function unmet(before, holding)
  local missing = before * 1000 - now
  if missing > 0 then return -missing end
  local held = stands[holding]
  if held ~= 1 then return held ~= 0 and held end
end

-- A history that is no hash is found out before the record has changed, and what was allowed and had room for the
-- one hash has it for the other.
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
  -- Both change nothing, but that lines without a record go: SET XX finds no key, and is refused for want of memory,
  -- which Redis checks only at the first write of a script. From here on DEL is known to be allowed, so it can undo
  -- what follows.
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
  local done, reply = true, nil
  k, a, count = k + 1, a + 5, count + 1
  if lines == '=' then
    reply = replace(record, nil, from, before, holding, 0, value)
  else
    local history, name, at, number = keys[k], args[a], a, tonumber(lines)
    k, a = k + 1, a + 1 + 2 * math.max(number, 0)
    if from == '' then
      done, reply = pcall(make, record, history, before, holding, number, value, name, at)
    elseif number < 0 then
      done, reply = pcall(delete, record, history, from, before, holding, name)
    else
      reply = replace(record, history, from, before, holding, number, value, at)
    end
  end
  -- Before version 7 Redis raised texts.
  if not done and type(reply) == 'string' then reply = redis.error_reply(reply) end
  replies[count] = reply
end
-- What has been done is told when all of it has. A swap never fails because of its bell.
while args[a] do
  local reply = replies[1 + tonumber(args[a])]
  if type(reply) == 'number' and reply >= 0 then try('publish', args[a + 1], '0') end
  a = a + 2
end
return replies
