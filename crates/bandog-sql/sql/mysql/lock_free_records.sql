-- Reads records and locks their rows until the end of the transaction. Fails if another transaction has locked one of them.
-- $1 names, sorted
-- Result: rows of name, version, value, the time after the rows were locked.
select name, version, value from bandog_record force index (primary) where name in ($1) order by name for update nowait;
select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
