-- Reads the names of all records.
-- Parameters: none.
-- Result: rows of name, sorted.
select name from record order by name;
