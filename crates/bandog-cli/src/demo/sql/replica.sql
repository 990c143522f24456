-- Which replica has this name among the owners of locks.
-- Parameters: ?1 the name.
-- Result: one row or none: the replica's number.
select number from replica where client = ?1
