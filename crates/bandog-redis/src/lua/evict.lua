-- Frees a lock, no matter which owner holds it, and notifies its subscribers.
--
-- KEYS: lock, token
-- ARGV: channel
-- Reply: nil: the lock is free
--        {told, owner, pttl, token}: freed. `told` is the number of notified subscribers, or -2 if the user has no
--        right to publish. `pttl` is the remaining lease in ms. `token` is nil if the user has no right to read it.
--        or the error, for example because the key is not a lock. Then the key is unchanged.

local lock, token, channel = KEYS[1], KEYS[2], ARGV[1]
-- A few fields are enough, and another application's hash may have millions.
local fields = redis.call('hscan', lock, 0, 'count', 16)[2]
-- An offer to starving clients is not a hold, so it is not evicted. It expires soon: see claim.lua.
if #fields == 0 or fields[1] == '00000000-0000-8000-8000-000000000000:0' then return false end

-- The format of an owner is a UUID, a colon and a number. A read-write lock of Redisson has fields with other names,
-- and uses other keys and channels, so this script cannot free it.
local eight, four = string.rep('%x', 8), '%-' .. string.rep('%x', 4)
local owner = '^' .. eight .. string.rep(four, 4) .. eight .. ':%-?%d+$'
for i = 1, #fields, 2 do
  if not string.find(fields[i], owner) then
    return redis.error_reply('WRONGTYPE this hash has fields that name no owner of a plain lock')
  end
end

local left, fence = redis.call('pttl', lock), redis.pcall('get', token)
if type(fence) == 'table' then fence = false end
redis.call('del', lock)
-- If the notification is refused, the eviction still succeeds.
local told = redis.pcall('publish', channel, '0')
if type(told) == 'table' then told = -2 end
return { told, fields[1], left, fence }
