-- Reads the elements of a take that are still taken.
-- $1 the queue
-- $2, $3 the take
-- Result: the id, fence, attempt, payload, age in µs and error of each element, in their order.
with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
), q as materialized (
    select number from bandog_work_queue where name = $1::text
), found as materialized (
    select id, at, fence, attempt, pushed from bandog_work
    where queue::bigint = (select number from q) and phase = 3 and taker = $2::bigint and take = $3::bigint
)
select f.id::text, f.fence, f.attempt::bigint, y.payload, clock.now - f.pushed, y.error
from clock cross join found f join (select id, payload, error from bandog_work_body where queue = (select number from q)
    and id = any(array(select id from found))) y on y.id = f.id
order by f.at, f.fence
