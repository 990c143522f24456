-- Creates the row of a lock, if it does not exist.
-- $1 name
-- Result: none.
insert into $table ($column) values ($1) on conflict do nothing
