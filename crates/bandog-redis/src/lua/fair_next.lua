-- Frees a fair lock as fair_release.lua does, and then claims it for another owner as fair_claim.lua does. If this owner
-- gets the lock, no other owner is notified.
--
-- KEYS: token, lock, held, queue, deadlines, waiting, stayed
-- ARGV: owner, channel, starving; owner that claims, ttl in ms, fences, joins, starving
-- Reply: the reply of fair_release.lua, and the reply of fair_claim.lua

local freed, taken = attempt(free, 1, 0), attempt(claim, 0, 3)
local granted = type(taken) == 'table' and taken[1] or taken
local is_granted = type(granted) == 'number' and granted > 0
if freed == 0 and not is_granted then freed = notify_first(KEYS[4], KEYS[5], KEYS[6], ARGV[1], ARGV[2]) end
return { freed, taken }
