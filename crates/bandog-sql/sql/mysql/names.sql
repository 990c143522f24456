-- Reads the names of all records.
-- Parameters: none.
-- Result: rows of name, sorted.
select name from bandog_record order by name
