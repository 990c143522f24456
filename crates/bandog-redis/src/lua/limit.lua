-- Changes the number of permits of a semaphore, and publishes the new number. The permits that are taken stay taken.
--
-- KEYS: lock, permits, held, former, token
-- ARGV: limit, channel, operations
-- Reply: the number of permits before, or 0 if the semaphore is new; or the error, for example because the key is not a
--        semaphore. Then the key is unchanged.

local function set_limit()
  local lock, permits, held, former, limit, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4], tonumber(ARGV[1]), ARGV[2]
  local available = recycle(lock, permits, held, channel, available_permits(lock))
  local count = call('zcard', permits)
  if available and count == 0 then check_latch(KEYS[5], ARGV[3]) end
  if not available then
    call('set', lock, text(limit - count))
  elseif available + count ~= limit then
    local before = text(available + count)
    write({
      { 'set', former, before, 'px', FORMER_MS, undo = { 'del', former } },
      { 'incrby', lock, limit - available - count },
    })
  end
  publish(channel, text(limit))
  return available and math.max(available + count, 1) or 0
end

return each(5, 3, set_limit)
