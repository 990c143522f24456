-- Remembers the number of a queue and the time in the session, reads its settings, and locks its row.
-- $1 the queue
-- Result: no row, or whether it is paused, the concurrency, the deliveries and the period of the rate, when the rate allows
-- the next delivery, the time, the number of the queue.
set @bandog_queue = (select number from bandog_work_queues where name = $1),
    @bandog_now = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
select is_paused, concurrency, deliveries, period_micros, next_delivery, @bandog_now, number
    from bandog_work_queues where number = @bandog_queue
    for update
