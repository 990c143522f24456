-- Reads who holds the lock.
--
-- KEYS: lock
-- ARGV: token
-- Reply: the result of `inspect`, or the error, for example because the key is not a string

return each(1, 1, function() return inspect(KEYS[1], ARGV[1]) end)
