-- Sets the mark that a subscriber waits for these locks. The transaction has locked their rows.
-- $1 names
-- Result: none.
update bandog_lease force index (primary) set wanted = true where name in ($1) and not wanted
