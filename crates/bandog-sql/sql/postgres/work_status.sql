-- Reads the settings of a queue, and counts its elements, at most 100,000 of each phase.
-- $1 the queue
-- Result: no row, or whether it is paused, its limits, the numbers of elements of the five phases, the age of the place of
-- the first ready element in µs.
with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
), q as materialized (
    select * from bandog_work_queues where name = $1::text
)
select q.is_paused, q.concurrency, q.deliveries, q.period,
    (select count(*) from (select from bandog_work where queue::bigint = (select number from q) and phase = 0 limit 100000) e),
    (select count(*) from (select from bandog_work where queue::bigint = (select number from q) and phase <> 0 and phase = 1 limit 100000) e),
    (select count(*) from (select from bandog_work where queue::bigint = (select number from q) and phase <> 0 and phase = 2 limit 100000) e),
    (select count(*) from (select from bandog_work where queue::bigint = (select number from q) and phase <> 0 and phase = 3 limit 100000) e),
    (select count(*) from (select from bandog_work where queue::bigint = (select number from q) and phase <> 0 and phase = 4 limit 100000) e),
    clock.now - (select place from bandog_work where queue::bigint = (select number from q) and phase = 0 order by rank, at, id limit 1)
from q, clock
