-- Reads who holds a lock of the layout `setnx`.

-- Maximum length of a value that is shown.
local SHOWN = 64

-- {'string', left, token, {value}, {}, {}}, or false if no client holds the lock. `left` is the PTTL of the string.
local function look(lock, token)
  local value, fence = call('get', lock), try('get', token)
  if not value or value == OFFERED then return false end
  return { 'string', call('pttl', lock), type(fence) == 'string' and fence, { string.sub(value, 1, SHOWN) }, {}, {} }
end

