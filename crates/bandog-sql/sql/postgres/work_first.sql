-- Reads the first 1000 elements of a phase.
-- $1 the queue
-- $2 the phase
-- Result: the ids.
with q as materialized (
    select number from bandog_work_queues where name = $1::text
), ready as (
    select id from bandog_work where queue::bigint = (select number from q) and phase = 0 and $2::bigint = 0
    order by rank, at, id limit 1000
), other as (
    select id from bandog_work where queue::bigint = (select number from q) and phase <> 0 and phase = $2::bigint and $2::bigint <> 0
    order by at, id limit 1000
)
select id::text from ready union all select id::text from other
