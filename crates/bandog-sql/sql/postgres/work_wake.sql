-- Makes elements ready whose delay or lease has ended: at most 100 of each. Writes nothing if there are none.
-- $1 the queue
-- $2 a time before which no delayed element is expected
-- $3 the same for leases; null: leases are not checked
-- $4 a text before the names of signals
-- $5 a time before which no lease ends that has not ended
-- Result: the time, the number of woken elements, when the next delayed element is due, when the next lease ends, the
-- cancelled elements whose lease has ended, whether there are signals, the time in µs that the statement has needed.
with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
), q as materialized (
    select number from bandog_work_queues where name = $1::text
), due as materialized (
    select e.id from bandog_work e
    where e.queue::bigint = (select number from q) and e.phase = 1 and e.at >= $2::bigint and e.at <= (select now from clock)
    order by e.at, e.id limit 100 for update skip locked
), ended as materialized (
    select e.id, e.is_cancelled from bandog_work e
    where e.queue::bigint = (select number from q) and e.phase = 3 and e.at >= $3::bigint and e.at <= (select now from clock)
    order by e.at, e.id limit 100 for update skip locked
), woken as (
    update bandog_work e set phase = 0, at = e.place, taker = null, take = null
    where e.queue = (select number from q)
        and e.id = any(array(select id from due union all select id from ended where not is_cancelled))
    returning 1
)
select (select now from clock), (select count(*) from woken),
    (select e.at from bandog_work e
        where e.queue::bigint = (select number from q) and e.phase = 1 and e.at >= $2::bigint and e.at > (select now from clock)
        order by e.at, e.id limit 1),
    (select e.at from bandog_work e
        where e.queue::bigint = (select number from q) and e.phase = 3 and $3::bigint is not null
            and e.at > (select now from clock) and e.at >= $5::bigint
        order by e.at, e.id limit 1),
    array(select id::text from ended where is_cancelled),
    exists (select from bandog_work_kept k where k.queue = (select number from q) and k.kind = 4 and k.name >= $4::text),
    (extract(epoch from clock_timestamp()) * 1000000)::bigint - (select now from clock)
