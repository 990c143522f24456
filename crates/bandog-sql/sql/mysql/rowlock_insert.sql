-- Creates the row of a lock, if it does not exist. It is a transaction of its own, so no lock on a gap stays.
-- $1 name
-- Result: none.
insert ignore into $table ($column) values ($asked)
