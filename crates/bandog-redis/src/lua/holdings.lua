-- Checks whether an owner holds its lock, for the scripts of records.

-- 1 if this owner holds the lock, 0 if not, or the error.
local function holds(lock, owner)
  local held = redis.pcall('hexists', lock, owner)
  if type(held) ~= 'table' or not string.find(held.err, 'WRONGTYPE', 1, true) then return held end
  -- With the layout `setnx`, the lock is a string with the owner.
  local value = redis.pcall('get', lock)
  if value == owner then return 1 end
  if type(value) == 'string' and string.find(value, '^[%x%-]+:%d+$') then return 0 end
  return held
end

