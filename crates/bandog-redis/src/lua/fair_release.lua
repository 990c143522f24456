-- Frees each fair lock that its owner holds, and notifies the owner that is next in the queue. If the owner does not hold
-- the lock, removes it from the queue. For `starving`, see release.lua.
--
-- KEYS: lock, held, queue, deadlines, waiting, stayed, ...
-- ARGV: owner, channel, starving, ... (the channel of an owner in the queue is `channel`, a colon and the owner;
--       `starving` is a key or empty)
-- Reply: for each lock; without a list around it if there is only one
--        >= 0: freed, the number of notified subscribers of other clients
--        -1: this owner does not hold the lock, and had no place
--        -2: freed, but the user has no right to publish
--        -4: this owner does not hold the lock, and its place is removed
--        or the error of this lock; the other locks are still handled

return each(6, 3, function(k, a) return free(k, a, true) end)
