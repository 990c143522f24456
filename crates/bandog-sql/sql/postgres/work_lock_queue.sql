-- Locks the row of a queue until the end of the transaction: another take with limits, or a change of them, waits.
-- $1 the queue
-- Result: no row, or whether it has limits.
select concurrency is not null or deliveries is not null from bandog_work_queues where name = $1::text
for no key update
