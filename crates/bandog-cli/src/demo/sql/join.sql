-- Records that a replica is ready.
-- Parameters: ?1 its number.
-- Result: one inserted row.
insert into replica (number) values (?1)
