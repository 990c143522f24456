-- Adds elements. If their keys of order are given, the transaction has locked these keys (`work_lock_keys`) before this
-- statement. `$given` is replaced by `work_given` or, in a transaction of the user, by `work_given_user`. There, a key is
-- not locked: its elements are blocked, and each leaves a signal for the next take.
-- $1 the queue
-- $2 the elements as a JSON array, in their order; texts are hexadecimal
-- $3 the channel that is notified if an element is ready
-- The others: see `work_given`.
-- Result: `$answer`.
with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
), q as materialized (
    select number from bandog_work_queues where name = $1::text
), given as materialized (
    $given
), remembered as (
    insert into bandog_work_kept (queue, kind, name, until)
    select q.number, 1, (select id from given where ord = 1)::text, clock.now + 300000000 from q, clock
    on conflict do nothing returning 1
), claimed as (
    insert into bandog_work_kept as k (queue, kind, name, until, element)
    select q.number, 0, g.once, clock.now + g.span, g.id from given g, q, clock
    where g.once is not null and exists (select from remembered) order by g.once
    on conflict (queue, kind, name) do update set
        element = case when k.until <= (select now from clock) then excluded.element else k.element end,
        until = case when k.until <= (select now from clock) then excluded.until else k.until end
    returning name, element
), occupied as materialized (
    select k.key from (select distinct order_key as key from given where order_key is not null) k
        cross join lateral (select from bandog_work e where e.queue::bigint = (select number from q) and e.order_key = k.key
            and e.waits_for = 0 and e.phase in (0, 1, 2, 3) limit 1) e
), ranked as materialized (
    select g.*, row_number() over (partition by g.order_key, g.waits_for = 0 order by g.ord) = 1 and o.key is null as is_head
    from given g left join claimed c on c.name = g.once left join occupied o on o.key = g.order_key
    where exists (select from remembered) and (g.once is null or c.element = g.id)
), added as (
    insert into bandog_work (queue, id, phase, rank, at, place, pushed, keep_result, before, waits_for, order_key)
    select q.number, r.id, p.phase, 9 - r.priority, case p.phase when 2 then clock.now else d.due end, d.due, clock.now,
        r.keep, r.before, r.waits_for, r.order_key
    from q cross join clock cross join ranked r
        cross join lateral (select greatest(clock.now, coalesce(r.due, clock.now + r.delay)) as due) d
        cross join lateral (select case when r.waits_for > 0 or r.order_key is not null and not ($locked and r.is_head) then 2
            when d.due > clock.now then 1 else 0 end as phase) p
    returning id, phase, order_key, waits_for
), added_body as (
    insert into bandog_work_body (queue, id, payload) select q.number, r.id, r.payload from q, ranked r
), signals as (
    insert into bandog_work_kept (queue, kind, name, until, content)
    select q.number, 4, a.id::text || ' 0', 9223372036854775807, convert_to(a.order_key, 'UTF8') from q, added a
    where not $locked and a.order_key is not null and a.waits_for = 0 returning 1
), notified as materialized (
    select pg_notify($3::text, '')::text
    where exists (select from added where phase = 0) or exists (select from signals)
)
$answer
