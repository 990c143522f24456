-- Reads who holds each lock, and which claims have a place in its queue.
--
-- KEYS: lock, ...
-- ARGV: prefix, token, held, writers, queue, waiting, order, permits, plain, operations, former, ...
-- Reply: for each lock the result of `inspect` or `free_semaphore`; without a list around it if there is only one
--        or the error of this lock, for example because the key is not a lock; the other locks are still handled

return each(1, 11, function(k, a) return inspect(KEYS[k + 1], a) or free_semaphore(KEYS[k + 1], a) end)
