-- Changes the number of permits of a semaphore, and publishes the number of permits that are not taken. The permits that
-- are taken stay taken.
--
-- KEYS: lock, plain, leases, former, permits
-- ARGV: limit, channel
-- Reply: the number of permits before, or 0 if the semaphore is new; or the error, for example because the limit of an
--        existing semaphore is not known. Then the key is unchanged.

local function set_limit()
  local lock, plain, leases, former, permits = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
  local limit, channel, commands = tonumber(ARGV[1]), ARGV[2], {}
  local available, before = recycle_plain(lock, plain, leases, channel, available_permits(lock)), known_limit(plain)
  check_plain(permits)
  if available and not before then
    refuse('MISUSED another library has created the semaphore, and the number of its permits is known only after the '
      .. 'first claim; claim a permit first, or change the number with addPermits of Redisson')
  end
  if before and before ~= limit then
    commands[1] = { 'set', former, text(before), 'px', FORMER_MS, undo = { 'del', former } }
  end
  if available then
    local change = limit - before
    commands[#commands + 1] = { 'incrby', lock, change, undo = { 'incrby', lock, -change } }
    available = available + change
  else
    available = limit - taken_by_us(plain)
    commands[#commands + 1] = { 'set', lock, text(available), undo = { 'del', lock } }
  end
  commands[#commands + 1] = { 'hset', plain, 'limit', text(limit) }
  write(commands)
  if available >= 0 then publish(channel, text(available)) end
  return before or 0
end

return each(5, 2, set_limit)
