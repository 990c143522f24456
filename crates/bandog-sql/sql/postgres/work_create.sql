-- Creates the row of a queue, unless it exists.
-- $1 the queue
-- Result: none.
insert into bandog_work_queues (name) select $1::text
where not exists (select from bandog_work_queues where name = $1::text) on conflict do nothing
