-- Deletes records.
-- $1 names
-- Result: none.
delete from bandog_record where name in ($1)
