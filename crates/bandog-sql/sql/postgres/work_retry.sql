-- Makes locked dead elements ready, with no attempts. If elements have the same key of order, the first one is ready, unless
-- the key has others that are not dead.
-- $1 the queue
-- $2 ids
-- $3 the channel of the queue
-- Result: rows without a meaning.
with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
), q as materialized (
    select number from bandog_work_queues where name = $1::text
), dead as materialized (
    select e.id, e.order_key, g.ord from bandog_work e
        join (select id::uuid as id, ord from unnest($2::text[]) with ordinality g (id, ord)) g on g.id = e.id
    where e.queue = (select number from q) and e.id = any($2::text[]::uuid[]) and e.phase = 4
), occupied as materialized (
    select k.key from (select distinct order_key as key from dead where order_key is not null) k
        cross join lateral (select from bandog_work e where e.queue::bigint = (select number from q) and e.order_key = k.key
            and e.waits_for = 0 and e.phase in (0, 1, 2, 3) limit 1) e
), ranked as materialized (
    select d.id, d.order_key is null or o.key is null and row_number() over (partition by d.order_key order by d.ord) = 1
        as is_head
    from dead d left join occupied o on o.key = d.order_key
), changed as (
    update bandog_work e
    set phase = case when r.is_head then 0 else 2 end, at = clock.now, place = clock.now, attempt = 0, is_cancelled = false
    from ranked r, clock
    where e.queue = (select number from q) and e.id = any(array(select id from ranked)) and e.id = r.id
    returning e.id
), forgotten as (
    delete from bandog_work_kept where ctid = any(array(
        select k.ctid from changed c cross join lateral (
            select ctid from bandog_work_kept where queue = (select number from q) and kind = 2 and name = c.id::text limit 1
        ) k
    ))
)
select pg_notify($3::text, '')::text
