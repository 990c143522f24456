-- Reads records and locks their rows, in the order of their names, until the end of the transaction.
-- $1 names, sorted
-- Result: rows of name, version, value, the time after the rows were locked.
select name, version, value from bandog_record force index (primary) where name in ($1) order by name for update;
select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
