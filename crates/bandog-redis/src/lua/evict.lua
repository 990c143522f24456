-- Takes a lock from whoever holds it, and tells those who wait for it.
--
-- KEYS: lock, token
-- ARGV: channel
-- Reply: nil: nobody holds it
--        {told, owner, pttl, token}: freed. `told` is how many subscribers were told, or -2: telling was refused; `pttl`
--        is what the lease had left in ms; `token` is nil where it may not be read
--        or the error: what is no lock is left alone

local lock, token, channel = KEYS[1], KEYS[2], ARGV[1]
-- Some fields are enough, and any hash of somebody else may have millions.
local fields = redis.call('hscan', lock, 0, 'count', 16)[2]
-- An offer to those who starve is no hold, and ends by itself: see claim.lua.
if #fields == 0 or fields[1] == '00000000-0000-8000-8000-000000000000:0' then return false end

-- A UUID, a colon and a number. A read-write lock of Redisson has more than that, and other keys and channels.
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
-- An eviction never fails because of its bell.
local told = redis.pcall('publish', channel, '0')
if type(told) == 'table' then told = -2 end
return { told, fields[1], left, fence }
