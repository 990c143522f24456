-- Reads a setting.
-- $1 name
-- Result: no row, or its text.
select value from bandog_meta where name = $1
