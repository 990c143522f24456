-- Reads elements, and the results of those that have ended.
-- $1 the queue
-- $2 ids
-- $3 maximum number of bytes of each payload, $4 of all of them, and of all results, beside the first: further ones are empty
-- Result: of each that is known the id, phase (5: it has ended), rank, time, attempt, fence, taker, whether it is cancelled,
-- its key of order, payload (5: the result), error, progress, age in µs, the time left in µs, the length of the payload, and
-- whether further elements follow.
with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
), q as materialized (
    select number from bandog_work_queues where name = $1::text
), e as materialized (
    select * from bandog_work where queue = (select number from q) and id = any($2::text[]::uuid[])
), b as materialized (
    select id, substring(payload for $3::bigint::int) as payload, octet_length(payload) as length, error, progress
    from bandog_work_body where queue = (select number from q) and id = any(array(select id from e))
), bodies as materialized (
    select *, row_number() over (order by id) = 1 or sum(octet_length(payload)) over (order by id) <= $4::bigint as fits from b
), results as materialized (
    select k.name, k.content, row_number() over (order by k.name) = 1
        or sum(octet_length(k.content)) over (order by k.name) <= $4::bigint as fits
    from clock cross join unnest($2::text[]) g (id) cross join lateral (
        select name, content, until from bandog_work_kept
        where queue = (select number from q) and kind = 2 and name = g.id::uuid::text limit 1
    ) k
    where k.until > clock.now and not exists (select from e where e.id::text = k.name)
)
select e.id::text, e.phase::bigint, e.rank::bigint, e.at, e.attempt::bigint, e.fence, e.taker, e.is_cancelled, e.order_key,
    case when b.fits then b.payload else '' end, b.error, b.progress, clock.now - e.pushed, e.at - clock.now, b.length::bigint, false
from clock cross join e join bodies b on b.id = e.id
union all
select name, 5, 9, 0, 0, 0, null, false, null, case when fits then content else '' end, null, null, 0, 0, 0, false from results
