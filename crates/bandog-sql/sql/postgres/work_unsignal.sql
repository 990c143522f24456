-- Removes signals.
-- $1 the queue
-- $2 their names
-- Result: none.
delete from bandog_work_kept where queue = (select number from bandog_work_queues where name = $1::text) and kind = 4
    and name = any($2::text[])
