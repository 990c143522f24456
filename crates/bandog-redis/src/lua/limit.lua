-- Changes the number of permits of a semaphore, and publishes the new number. The permits that are taken stay taken.
--
-- KEYS: lock, permits, held, former
-- ARGV: limit, channel
-- Reply: 1, or the error, for example because the key is not a semaphore. Then the key is unchanged.

local function set_limit()
  local lock, permits, held, former, limit, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4], tonumber(ARGV[1]), ARGV[2]
  local available = recycle(lock, permits, held, channel, available_permits(lock))
  local count = call('zcard', permits)
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
  return 1
end

return each(4, 2, set_limit)
