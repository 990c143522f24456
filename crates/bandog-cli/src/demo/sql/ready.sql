-- How many replicas are ready.
-- Parameters: none.
-- Result: one row: the number.
select count(*) from replica
