-- Deletes the fence of a lock. The row in ShedLock's table stays, and so does the row that its locks are read with.
-- $1 name
-- Result: none.
delete from bandog_fence where name = $1
