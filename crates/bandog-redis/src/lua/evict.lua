-- Takes a lock from whoever holds it, and tells those who wait for it.
--
-- KEYS: lock
-- ARGV: channel
-- Reply: >= 0: freed, so many subscribers were told
--        -1: nobody holds it
--        -2: freed, but telling was refused
--        or the error: what is no lock is left alone

local lock, channel = KEYS[1], ARGV[1]
-- Some fields are enough, and any hash of somebody else may have millions.
local fields = redis.call('hscan', lock, 0, 'count', 16)[2]
if #fields == 0 then return -1 end

-- A UUID, a colon and a number. A read-write lock of Redisson has more than that, and other keys and channels.
local eight, four = string.rep('%x', 8), '%-' .. string.rep('%x', 4)
local owner = '^' .. eight .. string.rep(four, 4) .. eight .. ':%-?%d+$'
for i = 1, #fields, 2 do
  if not string.find(fields[i], owner) then
    return redis.error_reply('WRONGTYPE this hash has fields that name no owner of a plain lock')
  end
end

redis.call('del', lock)
-- An eviction never fails because of its bell.
local told = redis.pcall('publish', channel, '0')
if type(told) == 'table' then return -2 end
return told
