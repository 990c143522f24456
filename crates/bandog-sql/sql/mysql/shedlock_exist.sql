-- Finds locks that have rows in both tables. A lock with only one of them is held by no client of bandog.
-- $1 names
-- Result: rows of name.
select l.name from bandog_lease l force index (primary) straight_join $table s force index (primary) on s.name = $name
where l.name in ($1)
