-- Locks elements until the end of the transaction, and waits for those that another transaction has locked.
-- $1 the queue
-- $2 ids
-- Result: rows without a meaning.
select e.id::text from bandog_work e
where e.queue = (select number from bandog_work_queues where name = $1::text) and e.id = any($2::text[]::uuid[])
order by e.id for update
