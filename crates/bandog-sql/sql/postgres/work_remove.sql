-- Removes locked elements as cancelled.
-- $1 the queue
-- $2 ids, $3 their channels for results
-- Result: rows without a meaning.
with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
), q as materialized (
    select number from bandog_work_queues where name = $1::text
), removed as (
    delete from bandog_work e where e.queue = (select number from q) and e.id = any($2::text[]::uuid[])
    returning e.id, e.keep_result
), removed_body as (
    delete from bandog_work_body e where e.queue = (select number from q) and e.id = any($2::text[]::uuid[])
), results as (
    insert into bandog_work_kept as k (queue, kind, name, until, content)
    select q.number, 2, r.id::text, clock.now + r.keep_result, '\x63' from q, clock, removed r where r.keep_result is not null
    on conflict (queue, kind, name) do update set until = excluded.until, content = excluded.content
    returning name
)
select pg_notify(g.channel, '')::text from unnest($2::text[], $3::text[]) g (id, channel)
    join results r on r.name = g.id::uuid::text group by g.channel
