-- Finds locks that have rows.
-- $1 names
-- Result: rows of name.
select l.name from bandog_lease l where l.name = any ($1::text[])
