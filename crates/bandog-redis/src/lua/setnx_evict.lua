-- Frees the lock, no matter which client has written the value, and notifies the subscribers.
--
-- KEYS: lock
-- ARGV: token, channel
-- Reply: nil: the lock is free
--        {receivers, row}: freed. `receivers` is the number of notified subscribers, or -2 if the user has no right to
--        publish. `row` is the result of `inspect` before the change.
--        or the error, for example because the key is not a string. Then the key is unchanged.

local function evict()
  local row = inspect(KEYS[1], ARGV[1])
  if not row then return false end
  call('del', KEYS[1])
  return { publish(ARGV[2], '0'), row }
end

return each(1, 2, evict)
