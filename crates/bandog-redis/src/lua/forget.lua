-- Deletes all keys of a lock of any kind, if the lock is free and no claim has a place.
--
-- KEYS: lock
-- ARGV: prefix, token, held, writers, queue, waiting, order, permits, plain, operations, former, deadlines, stayed,
--       starving, leases
-- Reply: 1: no key is left
--        0: a client holds the lock or waits for it, and nothing has changed
--        or the error, for example because the key is not a lock, or because the slot of the lock is being moved
--        between nodes of a Redis Cluster. Then the keys are unchanged.

local function forget()
  local lock, writers, queue, waiting, order = KEYS[1], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
  local operations, leases = ARGV[10], ARGV[15]
  if inspect(lock, 0) then return 0 end
  -- Only the lock is in KEYS. While the slot is being moved, any other key may be at the other node. The name of the token
  -- has a hash tag, so a longer name is in the same slot.
  local absent = ARGV[2] .. ':'
  while exists(absent) do absent = absent .. ':' end
  check_shown(absent)
  local places = {
    waiting_owners(list('lrange', queue, 0, -1), waiting),
    waiting_owners(list('zrange', writers, 0, -1), writers),
    waiting_owners(list('zrange', order, 0, -1), waiting),
    list('zrangebyscore', leases, '(' .. text(NOW), '+inf'),
  }
  for _, claims in ipairs(places) do
    if #claims > 0 then return 0 end
  end
  if type(try('get', lock)) == 'string' and not free_semaphore(lock, 0) then
    refuse('WRONGTYPE this key is no semaphore of bandog')
  end
  -- The first argument is the beginning of several keys, and `operations` belongs to latches.
  local found = {}
  for _, key in ipairs({ lock, unpack(ARGV, 2) }) do
    if key ~= operations and exists(key) then found[#found + 1] = key end
  end
  if #found > 0 then call('del', unpack(found)) end
  return 1
end

return each(1, 15, forget)
