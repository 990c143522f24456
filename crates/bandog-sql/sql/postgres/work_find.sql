-- Reads elements, and the results of those that have ended.
-- $1 the queue
-- $2 ids
-- Result: of each that is known the id, phase (5: it has ended), rank, time, attempt, fence, taker, whether it is cancelled,
-- its key of order, payload (5: the result), error, progress, age in µs, and the time left in µs.
with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
), q as materialized (
    select number from bandog_work_queue where name = $1::text
), e as materialized (
    select * from bandog_work where queue = (select number from q) and id = any($2::text[]::uuid[])
), b as materialized (
    select * from bandog_work_body where queue = (select number from q) and id = any(array(select id from e))
)
select e.id::text, e.phase::bigint, e.rank::bigint, e.at, e.attempt::bigint, e.fence, e.taker, e.is_cancelled, e.order_key,
    b.payload, b.error, b.progress, clock.now - e.pushed, e.at - clock.now
from clock cross join e join b on b.id = e.id
union all
select k.name, 5, 9, 0, 0, 0, null, false, null, k.content, null, null, 0, 0
from clock cross join unnest($2::text[]) g (id) cross join lateral (
    select name, content, until from bandog_work_kept
    where queue = (select number from q) and kind = 2 and name = g.id::uuid::text limit 1
) k
where k.until > clock.now and not exists (select from e where e.id::text = k.name)
