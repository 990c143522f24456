-- Checks whether an owner holds its lock of the layout `setnx`, for the scripts of records.

-- 1 if this owner holds the lock, 0 if not, or the error.
local function holds(lock, owner)
  local value = attempt(value_of, lock)
  if type(value) == 'table' then return value end
  return value == owner and 1 or 0
end

