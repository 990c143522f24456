-- The scheduler's latest run.
-- Parameters: none.
-- Result: one row or none: the replica's number, the fence, whether it is sweeping now.
select replica, fence, state = 'sweeping' from sweep where fence is not null order by fence desc limit 1
