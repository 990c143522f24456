-- Reads records and locks their rows until the end of the transaction. Fails if another transaction has locked one of them.
-- $1 names, sorted
-- Result: rows of name, version, value.
select name, version, value from bandog_record force index (primary) where name in ($1) order by name for update nowait
