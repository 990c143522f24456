-- Rolls back a part; keep.sql ends it.
-- Parameters: none.
-- Result: none.
rollback to part;
