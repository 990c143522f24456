-- Deletes the row of a lock.
-- ?1 name
-- Result: none.
delete from lease where name = ?1;
