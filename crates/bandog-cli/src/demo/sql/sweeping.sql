-- Who is sweeping now.
-- Parameters: none.
-- Result: one row for each: the replica's number.
select replica from sweep where state = 'sweeping'
