-- Deletes records whose rows are locked. With a list of names, the server could scan the table, and wait for other rows.
-- $1 names
-- Result: none.
delete r from ($rows(1 name)) deleted straight_join bandog_record r on r.name = deleted.name
