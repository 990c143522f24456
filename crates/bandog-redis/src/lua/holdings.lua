-- Checks whether an owner holds its lock, for the scripts of records.

-- 1 if this owner holds the lock, 0 if not, or the error.
local function holds(lock, owner) return redis.pcall('hexists', lock, owner) end

