-- Reads records and locks their rows, in the order of their names, until the end of the transaction.
-- $1 names, sorted
-- Result: rows of name, version, value.
select name, version, value from bandog_record force index (primary) where name in ($1) order by name for update
