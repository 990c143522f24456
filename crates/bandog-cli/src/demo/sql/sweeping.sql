-- Who is sweeping now. Of the scheduler's runs it is the latest: an earlier one's replica was killed or stands still.
-- Parameters: none.
-- Result: one row for each: the replica's number.
select replica from sweep
where state = 'sweeping' and (fence is null or fence = (select max(fence) from sweep))
