-- Reads who holds a lock of any kind, where semaphores have the layout of Redisson's RSemaphore.
--
-- KEYS: lock
-- ARGV: prefix, token, held, writers, queue, waiting, order, permits, plain, operations, former, leases
-- Reply: the result of `inspect_plain`, `inspect` or `free_semaphore`, or the error, for example because the key is
--        not a lock

return each(1, 12, function()
  local row = inspect_plain(KEYS[1], ARGV[9], ARGV[12], ARGV[6], ARGV[7])
  if row == nil then row = inspect(KEYS[1], 0) end
  return row or free_semaphore(KEYS[1], 0)
end)
