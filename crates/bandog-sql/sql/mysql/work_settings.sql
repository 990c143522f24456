-- Replaces the settings of a queue.
-- $1 whether it is paused, $2 the concurrency, $3 the deliveries and $4 the period of the rate, $5 the next delivery
-- Result: none.
update bandog_work_queues set is_paused = $1, concurrency = $2, deliveries = $3, period_micros = $4, next_delivery = $5
where number = @bandog_queue
