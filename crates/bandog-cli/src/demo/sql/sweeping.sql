-- The replicas that are sweeping now. Of the scheduler's runs only the latest counts, because the replica of an earlier
-- unfinished run was killed or is paused.
-- Parameters: none.
-- Result: one row for each: the replica's number.
select replica from sweep
where state = 'sweeping' and (fence is null or fence = (select max(fence) from sweep))
