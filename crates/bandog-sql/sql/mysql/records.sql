-- Reads records.
-- $1 names
-- Result: rows of name, version, value.
select name, version, value from bandog_record where name in ($1)
