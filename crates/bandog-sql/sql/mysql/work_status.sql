-- Reads the settings of a queue, and counts its elements, at most 100,000 of each phase.
-- $1 the queue
-- Result: no row, or whether it is paused, its limits, the numbers of elements of the five phases, the age of the place of
-- the first ready element in microseconds.
set @bandog_queue = (select number from bandog_work_queues where name = $1);
select q.is_paused, q.concurrency, q.deliveries, q.period_micros,
    (select count(*) from (select 1 from bandog_work e force index (in_order) where e.queue = @bandog_queue and e.phase = 0
        limit 100000) counted),
    (select count(*) from (select 1 from bandog_work e force index (in_order) where e.queue = @bandog_queue and e.phase = 1
        limit 100000) counted),
    (select count(*) from (select 1 from bandog_work e force index (in_order) where e.queue = @bandog_queue and e.phase = 2
        limit 100000) counted),
    (select count(*) from (select 1 from bandog_work e force index (in_order) where e.queue = @bandog_queue and e.phase = 3
        limit 100000) counted),
    (select count(*) from (select 1 from bandog_work e force index (in_order) where e.queue = @bandog_queue and e.phase = 4
        limit 100000) counted),
    timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) - (select e.place from bandog_work e force index (in_order) where e.queue = @bandog_queue and e.phase = 0
        order by e.line, e.at, e.id limit 1)
from bandog_work_queues q where q.number = @bandog_queue
