-- Reads the elements of a take that are still taken. The payloads of those that exceed the portion are left out.
-- $1 the queue
-- $2, $3 the take
-- $4 maximum number of elements with a payload
-- $5 maximum number of bytes of their payloads, beside the first one
-- Result: the id, fence, attempt, payload, age in µs and error of each element, and whether it is in the portion, in their order.
with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
), q as materialized (
    select number from bandog_work_queues where name = $1::text
), found as materialized (
    select id, at, fence, attempt, pushed from bandog_work
    where queue::bigint = (select number from q) and phase = 3 and taker = $2::bigint and take = $3::bigint
), sized as materialized (
    select f.*, y.payload, y.error, row_number() over w as place, sum(octet_length(y.payload)) over w as total
    from found f join (select id, payload, error from bandog_work_body where queue = (select number from q)
        and id = any(array(select id from found))) y on y.id = f.id
    window w as (order by f.fence)
), cut as materialized (
    select *, place <= $4::bigint and (place = 1 or total <= $5::bigint) as is_in from sized
)
select c.id::text, c.fence, c.attempt::bigint, case when c.is_in then c.payload else '' end, clock.now - c.pushed, c.error, c.is_in
from clock cross join cut c order by c.place
