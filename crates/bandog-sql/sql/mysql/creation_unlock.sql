-- Frees the lock of `creation_lock`.
-- Parameters: none.
-- Result: a row without a meaning.
select release_lock(concat('bandog ', md5(database())))
