-- Takes all permits of each claim or none: if enough of them are free and no other claim has a place before it, if the
-- claim already has them, or if the claim `from` has them and gives them to this claim.
--
-- KEYS: lock, token, plain, leases, former, waiting, order, permits, ...
-- ARGV: owner, take, ttl in ms, fences, limit, from, starves, joins, channel, operations, ...
--       (`limit` is the number of all permits that the claim expects; `from` is empty if not needed; `starves` and
--       `joins` are 1 or empty)
--
-- If the semaphore does not exist, it is created with the limit, less the permits that claims of ours have. `former` is
-- the limit before the last change, which is accepted, too. `waiting` and `order` have the places of starving claims.
--
-- Reply: for each lock; without a list around it if there is only one
--        > 0: granted, the last fence of the reserved block
--        < 0: busy, minus the milliseconds until a claim of ours expires
--        or the error of this lock; the other locks are still handled
--
-- If the server refuses a command, the commands before it are undone.

local function claim(k, a)
  local lock, token, plain, leases = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4]
  local former, waiting, order, permits = KEYS[k + 5], KEYS[k + 6], KEYS[k + 7], KEYS[k + 8]
  local owner, take, ttl, fences = ARGV[a + 1], tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3]), ARGV[a + 4]
  local expected, from, starves = tonumber(ARGV[a + 5]), ARGV[a + 6], ARGV[a + 7]
  local joins, channel = ARGV[a + 8], ARGV[a + 9]
  local available = recycle_plain(lock, plain, leases, channel, available_permits(lock))

  local fence = own_permits(plain, owner)
  if fence then
    extend_plain(leases, owner, ttl)
    return fence
  end

  check_plain(permits)
  local limit, created = known_limit(plain), nil
  if available then
    check_latch(token, ARGV[a + 10])
  else
    local taken = taken_by_us(plain)
    -- No client has a permit, so the semaphore is new.
    if taken == 0 then limit = nil end
    created = (limit or expected) - taken
    available = created
  end
  check_limit(former, take, expected, limit or expected)
  local from_fence, from_take
  if from ~= '' then from_fence, from_take = own_permits(plain, from) end
  -- A claim that gets the permits of another claim does not have to wait for claims that have a place.
  local first = first_place(waiting, order)
  local is_free = from_fence and available + from_take >= take
  if not from_fence then is_free = available >= take and (not first or first == owner) end
  if not is_free then return refused(leases, waiting, order, owner, starves, joins, first) end

  local last, commands = next_fence(token, fences), {}
  local function add(command) commands[#commands + 1] = command end
  if created then
    add({ 'set', lock, '', 'xx' })
    add({ 'set', lock, text(created), undo = { 'del', lock } })
  end
  if not from_fence then add({ 'incrby', lock, -take, undo = { 'incrby', lock, take } }) end
  -- The next two commands remove nothing. They check the rights, which may be needed to undo the commands after them.
  add({ 'zrem', leases, owner })
  add({ 'hdel', plain, owner })
  add({ 'zadd', leases, text(NOW + ttl), owner, undo = { 'zrem', leases, owner } })
  add({ 'hset', plain, owner, text(last) .. ' ' .. text(take), undo = { 'hdel', plain, owner } })
  if from_fence then
    add({ 'zrem', leases, from, undo = { 'zadd', leases, call('zscore', leases, from), from } })
    add({ 'hdel', plain, from, undo = { 'hset', plain, from, call('hget', plain, from) } })
  end
  if not limit then add({ 'hset', plain, 'limit', text(expected), undo = { 'hdel', plain, 'limit' } }) end
  add({ 'set', token, text(last) })
  if first then
    add({ 'zrem', waiting, owner })
    add({ 'zrem', order, owner })
  end
  write(commands)
  if created and created > 0 then publish(channel, text(created)) end
  -- Other claims no longer have to wait for this one.
  if first and available > take and not from_fence then publish(channel, text(available - take)) end
  return last
end

return each(8, 10, claim)
