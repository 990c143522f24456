-- The number of ready replicas.
-- Parameters: none.
-- Result: one row: the number.
select count(*) from replica
