-- Takes ready elements, the first ones that no other transaction has locked. Elements that were delivered too often are left
-- for `work_bury`. A queue with limits gives nothing unless the transaction has locked its row.
-- $1 the queue
-- $2 maximum number of elements
-- $3 the lease in µs
-- $4 maximum number of deliveries
-- $5, $6 the take
-- $7, $8 for each rank the `at` and the id of an element before which no ready one is expected
-- $9 whether the row of the queue is locked
-- $10 maximum number of bytes of the payloads, $11 whether this counts also for the first element
-- Result: at least one row. Whether the queue must be locked, whether it is paused, whether the rate or the concurrency has
-- reduced the number, the time in µs until the rate allows one, the elements that were delivered too often, whether
-- further elements are ready, the time; and of each element its place in the answer, id, fence, attempt, payload, age in µs,
-- error, rank and former `at`; the time in µs that the statement has needed; and whether elements were left because of their
-- bytes.
with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
), q as materialized (
    select w.*, w.concurrency is not null or w.deliveries is not null as is_limited,
        greatest(w.deliveries / 50, 1) as burst,
        greatest((w.period + w.deliveries - greatest(w.deliveries / 50, 1)) / (w.deliveries - greatest(w.deliveries / 50, 1) + 1), 1)
            as pace,
        greatest(w.next_delivery - clock.now, 0) as ahead
    from bandog_work_queues w, clock where w.name = $1::text
), budget as materialized (
    select case when q.is_paused or q.is_limited and not $9::bool then 0 else greatest(0, least($2::bigint,
            case when q.concurrency is not null then q.concurrency - (select count(*) from (
                select from bandog_work e where e.queue::bigint = (select number from q) and e.phase = 3
                limit (select concurrency from q)) taken) end,
            case when q.deliveries is not null then q.burst - (q.ahead + q.pace - 1) / q.pace end)) end as number
    from q
), picked as materialized (
    select e.* from unnest($7::bigint[], $8::text[]) with ordinality f (at, id, number)
        cross join lateral (
            select w.id, w.rank, w.at, w.attempt from bandog_work w
            where w.queue::bigint = (select number from q) and w.phase = 0 and w.rank = (f.number - 1)::smallint
                and (w.at, w.id) > (f.at, f.id::uuid)
            order by w.at, w.id limit (select number from budget) for update skip locked
        ) e
    limit (select number from budget)
), last as materialized (
    select rank, at, id from picked order by rank desc, at desc, id desc limit 1
), sized as materialized (
    select p.id, p.rank, p.at, y.payload, y.error, row_number() over w as place, sum(coalesce(octet_length(y.payload), 0)) over w as total
    from picked p left join lateral (
        select payload, error from bandog_work_body where queue = (select number from q) and id = p.id limit 1
    ) y on true
    where p.attempt < $4::bigint
    window w as (order by p.rank, p.at, p.id)
), chosen as materialized (
    select * from sized where total <= $10::bigint or place = 1 and not $11::bool
), taken as (
    update bandog_work e
    set phase = 3, at = clock.now + $3::bigint, attempt = e.attempt + 1, fence = greatest(e.fence + 1, clock.now + c.place),
        taker = $5::bigint, take = $6::bigint
    from chosen c, clock
    where e.queue = (select number from q) and e.id = any(array(select id from chosen)) and e.id = c.id
    returning c.place, e.id, e.fence, e.attempt, clock.now - e.pushed as age, c.rank, c.at, c.payload, c.error
), paced as (
    update bandog_work_queues w
    set next_delivery = greatest(w.next_delivery, clock.now) + q.pace * (select count(*) from taken)
    from q, clock where w.number = (select number from q) and q.deliveries is not null and (select count(*) from taken) > 0
)
select coalesce(q.is_limited and not $9::bool, false), coalesce(q.is_paused, false), coalesce(b.number < $2::bigint, false),
    case when q.deliveries is not null and q.burst - (q.ahead + q.pace * p.number + q.pace - 1) / q.pace <= 0
        then q.ahead + q.pace * (p.number + 1) - q.pace * q.burst end,
    array(select id::text from picked where attempt >= $4::bigint),
    (select count(*) from picked) = $2::bigint and exists (
        select from bandog_work w where w.queue::bigint = (select number from q) and w.phase = 0
            and (w.rank, w.at, w.id) > ((select rank from last), (select at from last), (select id from last))),
    clock.now, t.place, t.id::text, t.fence, t.attempt::bigint, t.payload, t.age, t.error, t.rank::bigint, t.at,
    (extract(epoch from clock_timestamp()) * 1000000)::bigint - clock.now,
    (select count(*) from sized) > (select count(*) from chosen)
from clock cross join (select count(*) as number from taken) p left join q on true left join budget b on true
    left join taken t on true
order by t.place
