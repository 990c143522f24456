-- Reads elements of a phase after a position, in their order.
-- $1 the queue
-- $2 the phase, which is not that of ready ones
-- $3, $4 the time and the id of the position
-- $5 maximum number
-- Result: as `work_find`.
with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
), q as materialized (
    select number from bandog_work_queue where name = $1::text
), e as materialized (
    select * from bandog_work where queue::bigint = (select number from q) and phase <> 0 and phase = $2::bigint::smallint
        and (at, id) > ($3::bigint, $4::text::uuid)
    order by at, id limit $5::bigint
), b as materialized (
    select * from bandog_work_body where queue = (select number from q) and id = any(array(select id from e))
)
select e.id::text, e.phase::bigint, e.rank::bigint, e.at, e.attempt::bigint, e.fence, e.taker, e.is_cancelled, e.order_key,
    b.payload, b.error, b.progress, clock.now - e.pushed, e.at - clock.now
from clock cross join e join b on b.id = e.id order by e.at, e.id
