-- Makes locked elements dead that were delivered too often.
-- $1 the queue
-- $2 ids, $3 the errors of those that have none, $4 their channels for results
-- Result: rows without a meaning.
with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
), q as materialized (
    select number from bandog_work_queues where name = $1::text
), given as materialized (
    select id::uuid as id, error, channel from unnest($2::text[], $3::bytea[], $4::text[]) g (id, error, channel)
), dead as (
    update bandog_work e set phase = 4, at = clock.now, taker = null, take = null from clock
    where e.queue = (select number from q) and e.id = any($2::text[]::uuid[]) returning e.id, e.keep_result
), texts as (
    update bandog_work_body b set error = coalesce(b.error, g.error), progress = null from given g
    where b.queue = (select number from q) and b.id = any($2::text[]::uuid[]) and b.id = g.id returning b.id, b.error
), results as (
    insert into bandog_work_kept as k (queue, kind, name, until, content)
    select q.number, 2, d.id::text, clock.now + d.keep_result, '\x66'::bytea || t.error
    from q cross join clock cross join dead d join texts t on t.id = d.id where d.keep_result is not null
    on conflict (queue, kind, name) do update set until = excluded.until, content = excluded.content
    returning name
)
select pg_notify(g.channel, '')::text from given g join results r on r.name = g.id::text group by g.channel
