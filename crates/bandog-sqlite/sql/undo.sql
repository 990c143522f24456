-- Takes back what a part did; keep.sql ends it.
-- Parameters: none.
-- Result: none.
rollback to part;
