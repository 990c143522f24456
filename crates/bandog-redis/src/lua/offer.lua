-- The names and functions that the scripts of all kinds of locks share. The text of such a script begins with this file.

-- The owner to which a release gives a lock if a client starves for it: only starving clients can take the lock from it.
local OFFERED = '00000000-0000-8000-8000-000000000000:0'
local OFFER_MS = 250
-- Longer than the interval between two claims of a starving client.
local STARVING_MS = 3000

-- Calls `step` with these arguments, and returns its reply or the error that ended it.
local function attempt(step, ...)
  local done, reply = pcall(step, ...)
  -- Before version 7, Redis raised errors as texts instead of tables.
  if not done and type(reply) == 'string' then return redis.error_reply(reply) end
  return reply
end

