-- Deletes the histories of records.
-- $1 names
-- Result: none.
delete l from ($rows(1 name)) cleared straight_join bandog_line l on l.name = cleared.name
