-- Records an error of a replica.
-- Parameters: ?1 its number, ?2 the error.
-- Result: one inserted row.
insert into trouble (replica, trouble) values (?1, ?2)
