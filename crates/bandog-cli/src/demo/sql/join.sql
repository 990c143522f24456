-- Says that a replica is ready.
-- Parameters: ?1 its number, ?2 its name among the owners of locks.
-- Result: one inserted row.
insert into replica (number, client) values (?1, ?2)
