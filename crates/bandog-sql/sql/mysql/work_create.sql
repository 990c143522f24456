-- Creates the row of a queue, unless it exists.
-- $1 the queue
-- Result: none.
insert ignore into bandog_work_queues (name) select single.name from (select $1 as name) single
where not exists (select 1 from bandog_work_queues q where q.name = $1)
