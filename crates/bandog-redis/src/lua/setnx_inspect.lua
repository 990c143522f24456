-- Reads who holds a lock of the layout `setnx`.

-- {'string', left, token, {value}, {}, {}}, or false if no client holds the lock. `left` is the PTTL of the string.
local function inspect(lock, token)
  local left, value, fence = call('pttl', lock), value_of(lock), try('get', token)
  if left == -2 or value == OFFERED then return false end
  return { 'string', left, type(fence) == 'string' and fence, { value }, {}, {} }
end

