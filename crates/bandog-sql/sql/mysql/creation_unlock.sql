-- Frees the lock of `creation_lock`.
-- Parameters: none.
-- Result: a row without a meaning.
select release_lock(concat('bandog ', left(sha2(database(), 256), 32)))
