-- Checks whether an owner holds its lock of the layout `setnx`, for the scripts of records.

-- 1 if this owner holds the lock, 0 if not, or the error.
local function holds(lock, owner)
  local done, value = pcall(value_of, lock)
  if done then return value == owner and 1 or 0 end
  -- Before version 7, Redis raised errors as texts instead of tables.
  return type(value) == 'string' and redis.error_reply(value) or value
end

