-- Reads what the queue was to keep until now or earlier, at most 100 rows, and locks those that no transaction has locked.
-- $1 a parameter without a meaning
-- Result: the kind and the name of each.
select k.kind, k.name from bandog_work_kept k force index (ends)
where k.queue = @bandog_queue and k.until <= @bandog_now order by k.until limit 100 for update skip locked
