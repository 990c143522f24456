-- Sets the mark that a subscriber waits for these locks. The transaction has locked their rows.
-- $1 names
-- Result: none.
update bandog_lease set wanted = true where name = any ($1::text[]) and not wanted
