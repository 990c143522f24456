-- Reads a queue.
-- ?1 name
-- Result: no row, or id, fence, paused, concurrency, rate, period, next_delivery.
select id, fence, paused, concurrency, rate, period, next_delivery from work_queue where name = ?1;
