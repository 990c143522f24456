-- Checks whether an owner holds its lock of the layout `setnx`, for the scripts of records. The lock is a string with the
-- owner. Other clients write a text of their own, which is another owner.

-- 1 if this owner holds the lock, 0 if not, or the error.
local function holds(lock, owner)
  local value = redis.pcall('get', lock)
  if type(value) == 'table' then return value end
  return value == owner and 1 or 0
end

