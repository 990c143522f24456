-- Finds locks that have rows in both tables. A lock with only one of them is held by no client of bandog.
-- $1 names
-- Result: rows of name.
select l.name from bandog_lease l join $table s on s.name = l.name collate "default" where l.name = any ($1::text[])
