-- Makes the first blocked element of each key of order ready or delayed, if the key has no element that is ready, delayed or
-- taken. The transaction has locked the keys before this statement.
-- $1 the queue
-- $2 the keys, each once, $3 the fence of the predecessor with each key, which the next delivery exceeds
-- $4 the channel that is notified if an element is ready
-- Result: rows without a meaning.
with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
), q as materialized (
    select number from bandog_work_queues where name = $1::text
), next as materialized (
    select n.id, k.fence from unnest($2::text[], $3::bigint[]) k (key, fence)
        cross join lateral (
            select b.id from bandog_work b
            where b.queue::bigint = (select number from q) and b.order_key = k.key and b.waits_for = 0 and b.phase = (select 2::smallint)
                and not exists (select from bandog_work h where h.queue::bigint = (select number from q) and h.order_key = k.key
                    and h.waits_for = 0 and h.phase in (0, 1, 3))
            order by b.at, b.id limit 1
        ) n
), changed as (
    update bandog_work e
    set phase = case when e.place > clock.now then 1 else 0 end, at = e.place, fence = greatest(e.fence, next.fence)
    from next, clock
    where e.queue = (select number from q) and e.id = any(array(select id from next)) and e.id = next.id
    returning 1
)
select pg_notify($4::text, '')::text where exists (select from changed)
