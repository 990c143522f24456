-- The value of a lock of the layout `setnx`: the owner. Other clients write a text of their own, which is another owner.

-- Maximum number of bytes of a value that are read. All owners of ours are shorter. The value of another application can
-- be very long, so it is not read whole.
local OWNER_BYTES = 64

-- The beginning of the value. Empty if the key does not exist.
local function value_of(lock) return redis.call('getrange', lock, 0, OWNER_BYTES - 1) end

