-- Deletes the history of a record.
-- ?1 name
-- Result: none.
delete from line where name = ?1;
