-- Takes each fair lock for its owner, if the lock is free and no other owner is before it in the queue, or if the owner
-- already holds it.
--
-- KEYS: token, lock, held, queue, deadlines, waiting, stayed, ...
-- ARGV: owner, ttl in ms, fences, joins, starving, ... (`joins` is 1 or empty; `starving` is a key or empty)
--
-- An owner that joins and is refused gets a place at the end of the queue. `held` marks a lock that was taken as a fair
-- lock. If `starving` is not empty, the owner also takes a lock that is offered: see claim.lua.
--
-- Reply: for each lock; without a list around it if there is only one
--        > 0: granted, the last fence of the reserved block
--        {fence, number, ...}: the same if claims of the same client directly follow in the queue; their numbers
--        < 0: busy, minus the milliseconds until the claim can be granted although no lock is released
--        {busy, ahead}: the same for an owner in the queue, with the number of owners before it
--        or the error of this lock; the other locks are still handled
--
-- If the server refuses a command, the commands before it are undone.

return each(7, 5, claim)
