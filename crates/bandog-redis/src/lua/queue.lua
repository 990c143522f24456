-- The claims that wait in the queue of a fair lock. `queue` is the list of their owners, and `deadlines` has the time at
-- which each of them is given up: both are Redisson's. `waiting` has the time at which the places of our own claims
-- expire. Redisson does not know this key.

local OWNER = '^' .. string.rep('%x', 8) .. '%-' .. string.rep('%x', 4) .. '%-8' .. string.rep('%x', 3) .. '%-'
  .. string.rep('%x', 4) .. '%-' .. string.rep('%x', 12) .. ':%d+$'

-- Whether this owner is a claim of bandog. The UUIDs of other libraries are not of version 8.
local function is_ours(owner) return string.find(owner, OWNER) ~= nil end

-- The time at which a place expires. Nil if the owner has no place.
local function expiry(zset, owner)
  local score = call('zscore', zset, owner)
  return score and tonumber(score)
end
