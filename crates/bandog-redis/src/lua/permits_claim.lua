-- Takes all permits of each claim or none: if enough of them are free and no other claim has a place before it, if the
-- claim already has them, or if the claim `from` has them and gives them to this claim.
--
-- KEYS: lock, token, permits, held, former, waiting, order, ...
-- ARGV: owner, ids, lasts in ms, fences, limit, from, from ids, starves, joins, channel, operations, ...
--       (`lasts` is the time after which the permits expire in the store; `limit` is the number of all permits that the
--       claim expects; `from` and `from ids` are empty if not needed; `starves` and `joins` are 1 or empty)
--
-- If the semaphore does not exist, it is created with the limit, less the permits that are taken. `former` is the limit
-- before the last change, which is accepted, too. `waiting` and `order` have the places of starving claims.
--
-- Reply: for each lock; without a list around it if there is only one
--        > 0: granted, the last fence of the reserved block
--        < 0: busy, minus the milliseconds until the claim can be granted although no permit is released
--        or the error of this lock; the other locks are still handled
--
-- If the server refuses a command, the commands before it are undone.

-- The commands that take the permits.
local function taking(lock, token, permits, held, waiting, order, owner, ids, lasts, last, taken, first)
  local deadline, add_all = text(NOW + lasts), { 'zadd', permits }
  for _, id in ipairs(ids) do
    add_all[#add_all + 1] = deadline
    add_all[#add_all + 1] = id
  end
  add_all.undo = { 'zrem', permits, unpack(ids) }
  local longest = math.max(call('pttl', held), lasts)
  local commands = {}
  local function add(command) commands[#commands + 1] = command end
  if taken.available then
    add({ 'set', lock, '', 'xx' })
    add({ 'set', lock, text(taken.available), undo = { 'del', lock } })
  end
  if not taken.from then add({ 'incrby', lock, -#ids, undo = { 'incrby', lock, #ids } }) end
  -- This command finds no permits. It checks the right, which may be needed to undo the next command.
  add({ 'zrem', permits, unpack(ids) })
  -- The new permits come before the end of those of `from`. So no key gets empty: while the slot of the keys is being
  -- moved between nodes of a Redis Cluster, a key that is deleted cannot be written again.
  add(add_all)
  add({ 'hset', held, owner, text(last) .. ' ' .. table.concat(ids), undo = { 'hdel', held, owner } })
  if taken.from then
    for i, id in ipairs(taken.from) do
      add({ 'zrem', permits, id, undo = taken.scores[i] and { 'zadd', permits, taken.scores[i], id } })
    end
    add({ 'hdel', held, taken.owner, undo = taken.fence and { 'hset', held, taken.owner, taken.fence } })
  end
  add({ 'pexpire', held, longest })
  add({ 'set', token, text(last) })
  if first then
    add({ 'zrem', waiting, owner })
    add({ 'zrem', order, owner })
  end
  return commands
end

local function claim(k, a)
  local lock, token, permits, held = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4]
  local former, waiting, order = KEYS[k + 5], KEYS[k + 6], KEYS[k + 7]
  local owner, ids, lasts, fences = ARGV[a + 1], ids_in(ARGV[a + 2]), tonumber(ARGV[a + 3]), ARGV[a + 4]
  local expected, from, from_ids = tonumber(ARGV[a + 5]), ARGV[a + 6], ids_in(ARGV[a + 7])
  local starves, joins, channel = ARGV[a + 8], ARGV[a + 9], ARGV[a + 10]
  local available = recycle(lock, permits, held, channel, available_permits(lock))

  if call('zscore', permits, ids[1]) then
    extend(permits, held, ids, lasts)
    local fence = own_fence(held, owner)
    if fence then return fence end
    fence = next_fence(token, fences)
    write({
      { 'hset', held, owner, text(fence) .. ' ' .. table.concat(ids), undo = { 'hdel', held, owner } },
      { 'pexpire', held, lasts },
      { 'set', token, text(fence) },
    })
    return fence
  end

  local count, taken = call('zcard', permits), {}
  if not available then
    available = expected - count
    taken.available = available
  elseif count == 0 then
    check_latch(token, ARGV[a + 11])
  end
  check_limit(former, #ids, expected, available + count)
  if from ~= '' and call('zscore', permits, from_ids[1]) then
    taken.from, taken.owner, taken.fence, taken.scores = from_ids, from, call('hget', held, from), {}
    for i, id in ipairs(from_ids) do taken.scores[i] = call('zscore', permits, id) end
  end
  -- A claim that gets the permits of another claim does not have to wait for claims that have a place.
  local first = first_place(waiting, order)
  local is_free = taken.from and available >= 0
  if not taken.from then is_free = available >= #ids and (not first or first == owner) end
  if not is_free then return refused(permits, waiting, order, owner, starves, joins, first) end

  local last = next_fence(token, fences)
  write(taking(lock, token, permits, held, waiting, order, owner, ids, lasts, last, taken, first))
  if taken.available and taken.available > 0 then publish(channel, text(taken.available)) end
  -- Other claims no longer have to wait for the place of this one, and can take the permits that remain.
  local remaining = taken.from and available or available - #ids
  if first == owner and remaining > 0 then publish(channel, text(remaining)) end
  -- Redisson gives the permits the ttl of the semaphore, if it has one.
  local left = call('pttl', lock)
  if left > 0 then try('pexpire', permits, left) end
  return last
end

return each(7, 11, claim)
