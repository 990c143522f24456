-- Rolls back the part of a transaction that part.sql has begun. After that, keep.sql ends the part.
-- Parameters: none.
-- Result: none.
rollback to part;
