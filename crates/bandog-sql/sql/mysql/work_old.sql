-- Reads what the queue was to keep until now or earlier, and locks those that no transaction has locked.
-- $1 maximum number of rows
-- Result: the kind and the name of each.
select k.kind, k.name from bandog_work_kept k force index (ends)
where k.queue = @bandog_queue and k.until <= @bandog_now order by k.until limit $1 for update skip locked
