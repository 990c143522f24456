-- Returns the permits of each claim, and publishes the number of permits that are not taken. If the claim has no
-- permits, removes its place.
--
-- KEYS: lock, permits, held, waiting, order, ...
-- ARGV: owner, ids, channel, ...
-- Reply: for each lock; without a list around it if there is only one
--        >= 0: returned, the number of notified subscribers
--        -1: this claim has no permits and no place, or its permits have expired
--        -2: returned, but the user has no right to publish
--        -4: this claim has no permits, and its place is removed
--        or the error of this lock; the other locks are still handled

local function release(k, a)
  local lock, permits, held, waiting, order = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4], KEYS[k + 5]
  local owner, ids, channel = ARGV[a + 1], ids_in(ARGV[a + 2]), ARGV[a + 3]
  local available, taken, scores, is_alive = available_permits(lock), {}, {}, false
  for _, id in ipairs(ids) do
    local until_ms = call('zscore', permits, id)
    if until_ms then
      taken[#taken + 1] = id
      scores[#scores + 1] = until_ms
      scores[#scores + 1] = id
      is_alive = is_alive or tonumber(until_ms) > NOW
    end
  end
  if #taken == 0 then return leave(waiting, order, owner, channel, available) end
  -- ZREM comes first: see `extend`.
  local commands = { { 'zrem', permits, unpack(taken) } }
  commands[1].undo = { 'zadd', permits, unpack(scores) }
  if available then commands[2] = { 'incrby', lock, #taken } end
  write(commands)
  try('hdel', held, owner)
  local receivers = 0
  if available and available + #taken >= 0 then receivers = publish(channel, text(available + #taken)) end
  return is_alive and receivers or -1
end

return each(5, 3, release)
