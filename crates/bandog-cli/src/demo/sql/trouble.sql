-- Writes down what went wrong for a replica.
-- Parameters: ?1 its number, ?2 what went wrong.
-- Result: one inserted row.
insert into trouble (replica, trouble) values (?1, ?2)
