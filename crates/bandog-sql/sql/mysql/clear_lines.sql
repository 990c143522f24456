-- Deletes the histories of records.
-- $1 names
-- Result: none.
delete from bandog_line where name in ($1)
