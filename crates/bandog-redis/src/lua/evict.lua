-- Frees a lock of any kind, no matter which owners hold it, and notifies its subscribers.
--
-- KEYS: lock
-- ARGV: prefix, token, held, writers, queue, waiting, order, permits, channel, read-write channel, semaphore channel
-- Reply: nil: the lock is free
--        {receivers, row}: freed. `receivers` is the number of notified subscribers, or -2 if the user has no right to
--        publish. `row` is the result of `inspect` before the change.
--        or the error, for example because the key is not a lock. Then the key is unchanged.

local lock, prefix, held, queue, permits = KEYS[1], ARGV[1], ARGV[3], ARGV[5], ARGV[8]
local channel, read_write_channel, semaphore_channel = ARGV[9], ARGV[10], ARGV[11]

local function evict()
  local row = inspect(lock, 0)
  if not row then return false end
  local kind, holders, receivers = row[1], row[4], nil
  if kind == 'map' then refuse('WRONGTYPE this hash is not that of a plain lock') end
  if kind == 'hash' then
    call('del', lock)
    try('del', held)
    receivers = publish(channel, '0')
    -- The first claim in the queue of a fair lock has a channel of its own.
    local first = list('lrange', queue, 0, 0)[1]
    if first then publish(channel .. ':' .. first, '0') end
  elseif kind == 'read-write' then
    local mode, keys = call('hget', lock, 'mode'), {}
    for i = 1, #holders, 2 do keys[i] = hold_key(prefix, holders[i], 1) end
    call('del', lock)
    try('del', held)
    for i = 1, #holders, 2 do try('del', keys[i]) end
    receivers = publish(read_write_channel, mode == 'read' and '0' or '1')
  else
    give_back(lock, permits, call('zrange', permits, 0, -1, 'withscores'))
    try('del', held)
    receivers = publish(semaphore_channel, call('get', lock))
  end
  return { receivers, row }
end

return each(1, 11, evict)
