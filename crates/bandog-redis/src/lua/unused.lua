-- Checks whether a name is unused: its token is old enough, and no key shows that the lock is held or waited for. The keys
-- of Redisson are not changed, except the token.
--
-- KEYS: lock
-- ARGV: prefix, token, held, writers, queue, waiting, order, permits, plain, operations, former, deadlines, stayed,
--       starving, leases, the other name with the same token (or the lock again), time in µs, whether keys are deleted
-- Reply: 0: there is no token
--        1: the name is used
--        2: the name is unused; if keys are deleted, its token and our other keys are gone
--        or the error, for example because the slot of the lock is being moved between nodes of a Redis Cluster. Then the
--        keys are unchanged.

-- A token below this number is a counter of Redisson and no time.
local FIRST_TIME = 10 ^ 15

local function unused()
  local lock, token, held, writers, queue, waiting = KEYS[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  local order, permits, plain, former, deadlines = ARGV[7], ARGV[8], ARGV[9], ARGV[11], ARGV[12]
  local stayed, starving, leases, other = ARGV[13], ARGV[14], ARGV[15], ARGV[16]
  local age, deletes = tonumber(ARGV[17]), ARGV[18] == '1'
  -- Only the lock is in KEYS, as in forget.lua.
  local absent = token .. ':'
  while exists(absent) do absent = absent .. ':' end
  check_shown(absent)
  local stored = call('get', token)
  if not stored then return 0 end
  local fence = string.find(stored, '^%d+$') and tonumber(stored)
  if not fence or fence < FIRST_TIME or fence + age >= MICROS then return 1 end
  for _, key in ipairs({ lock, other, queue, deadlines, permits, plain }) do
    if exists(key) then return 1 end
  end
  local places = {
    waiting_owners(list('zrange', writers, 0, -1), writers),
    waiting_owners(list('zrange', order, 0, -1), waiting),
    list('zrangebyscore', leases, '(' .. text(NOW), '+inf'),
  }
  for _, claims in ipairs(places) do
    if #claims > 0 then return 1 end
  end
  if deletes then
    local found = {}
    for _, key in ipairs({ held, writers, waiting, order, former, stayed, starving, leases }) do
      if exists(key) then found[#found + 1] = key end
    end
    call('del', token, unpack(found))
  end
  return 2
end

return each(1, 18, unused)
