-- Reads who holds a lock of any kind.

local function is_wrong_type(reply)
  return type(reply) == 'table' and reply.err and string.find(reply.err, 'WRONGTYPE', 1, true)
end

-- The reply, or an empty list if the user has no right for the command or for the key.
local function list(...)
  local reply = try(...)
  if type(reply) ~= 'table' or reply.err then return {} end
  return reply
end

-- See `check_absent`. A user without the right to delete sees what this node has.
local function check_shown(key)
  local done, reply = pcall(check_absent, key)
  -- Before version 7, Redis raised errors as texts instead of tables.
  if not done and string.find(reply.err or reply, 'non local key', 1, true) then error(reply) end
end

-- The owners in `members` whose places have not expired. The places of other libraries are not in `waiting`.
local function waiting_owners(members, waiting)
  local alive = {}
  for _, owner in ipairs(members) do
    local score = try('zscore', waiting, owner)
    if not is_ours(owner) or type(score) == 'string' and tonumber(score) > NOW then alive[#alive + 1] = owner end
  end
  return alive
end

-- Some fields of a hash, and the fields of a read-write lock; the mode; and whether these are all fields. A hash of another application may have millions of fields,
-- so not more than this number of pages is read.
local MAX_PAGES = 64

local function fields_of(lock)
  local page = try('hscan', lock, 0, 'count', 16)
  if page.err then return page end
  -- The first page of a large hash need not contain the mode.
  local mode, fields, pages = call('hget', lock, 'mode'), {}, 1
  local is_shared = mode == 'read' or mode == 'write'
  local function add()
    for i = 1, #page[2], 2 do
      local field, value = page[2][i], page[2][i + 1]
      if is_shared and not is_hold(field, value) then refuse('WRONGTYPE this hash is not a read-write lock') end
      fields[field] = value
    end
  end
  add()
  while is_shared and page[1] ~= '0' and pages < MAX_PAGES do
    pages = pages + 1
    page = call('hscan', lock, page[1], 'count', 256)
    add()
  end
  if is_shared and not next(fields, next(fields)) then refuse('WRONGTYPE this hash is not a read-write lock') end
  return nil, fields, mode, page[1] == '0'
end

-- A read-write lock: each reader that is alive, or the writer, with the milliseconds until its hold expires.
local function inspect_holds(fields, prefix, left)
  local holders = {}
  for owner, holds in pairs(fields) do
    local longest = 0
    if string.sub(owner, -6) == ':write' then
      longest = left
    elseif owner ~= 'mode' then
      for number = 1, number_of_holds(holds) do
        longest = math.max(longest, call('pttl', hold_key(prefix, owner, number)))
      end
      if longest == 0 and is_ours(owner) then check_shown(hold_key(prefix, owner, 1)) end
      -- See `readers`.
      if not is_ours(owner) then longest = left == -1 and -1 or math.max(longest, left) end
    end
    if longest ~= 0 and owner ~= writer(OFFERED) then
      holders[#holders + 1] = owner
      holders[#holders + 1] = longest
    end
  end
  return holders
end

-- A semaphore: each permit that is held, with the milliseconds until it expires. Nil if the key is not a semaphore.
local function inspect_permits(lock, held, waiting, order, permits)
  local available = call('get', lock)
  if not available or not string.find(available, '^%-?%d+$') then return nil end
  local scores, holders = list('zrange', permits, 0, -1, 'withscores'), {}
  if #scores == 0 then check_shown(permits) end
  for i = 1, #scores, 2 do
    if tonumber(scores[i + 1]) > NOW then
      holders[#holders + 1] = scores[i]
      holders[#holders + 1] = tonumber(scores[i + 1]) - NOW
    end
  end
  if #holders == 0 then return false end
  local queue = waiting_owners(list('zrange', order, 0, -1), waiting)
  return { 'semaphore', tonumber(available) + #scores / 2, false, holders, queue, list('hgetall', held) }
end

-- {type, left, token, holders, queue, held}, or false if no client holds the lock. `type` is `hash` (a mutex), `map` (a hash
-- that is no lock of a known kind), `read-write` or `semaphore`. `left` is the PTTL of the hash, or the limit of the semaphore. `holders` are pairs of an owner and the
-- milliseconds until it expires; of a hash, only the names of some fields. `held` are pairs of an owner and its fence.
-- Only the key of the lock is in KEYS, so that a user without the right for the other keys can see who holds the lock.
local function inspect(lock, a)
  local prefix, token, held, writers = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4]
  local queue, waiting, order, permits = ARGV[a + 5], ARGV[a + 6], ARGV[a + 7], ARGV[a + 8]
  local failed, fields, mode, is_all = fields_of(lock)
  if failed then
    local found
    if is_wrong_type(failed) and not is_wrong_type(try('get', lock)) then
      found = inspect_permits(lock, held, waiting, order, permits)
    end
    if found == nil then error(failed) end
    return found
  end
  local left, fence = call('pttl', lock), try('get', token)
  if left == -2 then return false end
  if type(fence) ~= 'string' then fence = false end
  if mode == 'read' or mode == 'write' then
    local holders = inspect_holds(fields, prefix, left)
    if #holders == 0 then return false end
    local waiting_writers = waiting_owners(list('zrange', writers, 0, -1), writers)
    return { 'read-write', left, fence, holders, waiting_writers, list('hgetall', held) }
  end
  local names, is_mutex = {}, is_all
  for name, value in pairs(fields) do
    names[#names + 1] = name
    is_mutex = is_mutex and #names == 1 and string.find(name, OWNER) and is_hold(name, value)
  end
  -- An offer to starving clients is not a hold. It expires soon: see claim.lua.
  if #names == 0 or #names == 1 and names[1] == OFFERED then return false end
  return { is_mutex and 'hash' or 'map', left, fence, names, waiting_owners(list('lrange', queue, 0, -1), waiting), list('hgetall', held) }
end

local function exists(key)
  local left = try('pttl', key)
  return type(left) == 'number' and left ~= -2
end

-- {'free', limit, false, {}, {}, {}}, if this key is a semaphore and no client has a permit. A count-down latch is a
-- number, too. So a number is a semaphore only if keys of ours that semaphores have exist, and the key that latches of
-- ours have does not. False for another key.
local function free_semaphore(lock, a)
  local token, permits, plain = ARGV[a + 2], ARGV[a + 8], ARGV[a + 9]
  local operations, former = ARGV[a + 10], ARGV[a + 11]
  local available = try('get', lock)
  if type(available) ~= 'string' or not string.find(available, '^%-?%d+$') or exists(operations) then return false end
  if not (exists(token) or exists(permits) or exists(plain) or exists(former)) then return false end
  local taken, limit = try('zcard', permits), try('hget', plain, 'limit')
  limit = type(limit) == 'string' and tonumber(limit) or available + (type(taken) == 'number' and taken or 0)
  return limit > 0 and { 'free', limit, false, {}, {}, {} }
end
