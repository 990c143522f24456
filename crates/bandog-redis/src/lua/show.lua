-- Reads who holds each lock, and which claims have a place in its queue.
--
-- KEYS: lock, ...
-- ARGV: prefix, token, held, writers, queue, waiting, order, permits, ...
-- Reply: for each lock what `look` returns; without a list around it if there is only one
--        or the error of this lock, for example because the key is not a lock; the other locks are still handled

return each(1, 8, function(k, a) return look(KEYS[k + 1], a) end)
