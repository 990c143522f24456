-- Reads elements of a phase after a position, in their order.
-- $1 the queue
-- $2 the phase, which is not that of ready ones
-- $3, $4 the time and the id of the position
-- $5 maximum number
-- $6 maximum number of bytes of each payload, $7 of all of them beside the first
-- Result: as `work_find`.
with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
), q as materialized (
    select number from bandog_work_queues where name = $1::text
), e as materialized (
    select * from bandog_work where queue::bigint = (select number from q) and phase <> 0 and phase = $2::bigint::smallint
        and (at, id) > ($3::bigint, $4::text::uuid)
    order by at, id limit $5::bigint
), b as materialized (
    select id, substring(payload for $6::bigint::int) as payload, octet_length(payload) as length, error, progress
    from bandog_work_body where queue = (select number from q) and id = any(array(select id from e))
), sized as materialized (
    select e.*, b.payload, b.length, b.error, b.progress, row_number() over w as number,
        sum(octet_length(b.payload)) over w as total
    from e join b on b.id = e.id window w as (order by e.at, e.id)
)
select e.id::text, e.phase::bigint, e.rank::bigint, e.at, e.attempt::bigint, e.fence, e.taker, e.is_cancelled, e.order_key,
    e.payload, e.error, e.progress, clock.now - e.pushed, e.at - clock.now, e.length::bigint,
    (select count(*) from e) = $5::bigint or exists (select from sized where number > 1 and total > $7::bigint)
from clock cross join sized e where e.number = 1 or e.total <= $7::bigint order by e.at, e.id
