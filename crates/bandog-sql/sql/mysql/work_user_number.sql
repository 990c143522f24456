-- Reads the number of a queue, for the statements of users. They must not read its row themselves: they would lock it.
-- $1 the queue
-- Result: no row, or the number.
select number from bandog_work_queues where name = $1
