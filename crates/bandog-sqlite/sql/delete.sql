-- Deletes a record.
-- ?1 name
-- Result: none.
delete from record where name = ?1;
