-- Counts predecessors that are done. An element that waits for no further one becomes ready or delayed; if it has a key of
-- order, `work_decide` does this.
-- $1 the queue
-- $2 the elements that wait, once for each predecessor
-- $3 the channel that is notified if an element is ready
-- Result: rows without a meaning.
with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
), changed as (
    update bandog_work e
    set waits_for = greatest(e.waits_for - d.number, 0),
        phase = case when e.waits_for > d.number or e.order_key is not null then 2 when e.place > clock.now then 1 else 0 end,
        at = case when e.waits_for > d.number then e.at when e.order_key is not null then clock.now else e.place end
    from (select id::uuid as id, count(*)::int as number from unnest($2::text[]) id group by 1) d, clock
    where e.queue = (select number from bandog_work_queues where name = $1::text) and e.id = any($2::text[]::uuid[])
        and e.id = d.id and e.waits_for > 0
    returning e.phase
)
select pg_notify($3::text, '')::text where exists (select from changed where phase = 0)
