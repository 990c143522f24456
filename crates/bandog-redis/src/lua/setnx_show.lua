-- Reads who holds the lock.
--
-- KEYS: lock
-- ARGV: token
-- Reply: what `look` returns, or the error, for example because the key is not a string

return each(1, 1, function() return look(KEYS[1], ARGV[1]) end)
