-- Deletes the rows of a lock.
-- $1 name
-- Result: none.
delete from bandog_lease where name = $1;
delete from bandog_fence where name = $1
