-- Extends leases, except those of elements that another transaction has locked.
-- $1 the queue
-- $2 the ids and $3 the fences of the deliveries
-- $4 the texts about the progress; empty: none; null: as before
-- $5 the lease in µs
-- Result: the id of each delivery that is held, whether it is cancelled, and whether its lease is extended.
with q as materialized (
    select number from bandog_work_queues where name = $1::text
), given as materialized (
    select id::uuid as id, fence, progress from unnest($2::text[], $3::bigint[], $4::bytea[]) g (id, fence, progress)
), locked as materialized (
    select e.id from bandog_work e
    where e.queue = (select number from q) and e.id = any($2::text[]::uuid[]) for update skip locked
), extended as (
    update bandog_work e set at = (extract(epoch from clock_timestamp()) * 1000000)::bigint + $5::bigint
    from given g
    where e.queue = (select number from q) and e.id = any(array(select id from locked)) and e.id = g.id
        and e.fence = g.fence and e.phase = 3
    returning e.id, e.is_cancelled
), texts as (
    update bandog_work_body b set progress = nullif(g.progress, '')
    from given g join extended x on x.id = g.id
    where b.queue = (select number from q) and b.id = any(array(select id from extended)) and b.id = g.id
        and g.progress is not null
)
select id::text, is_cancelled, true from extended
union all
select e.id::text, e.is_cancelled, false from bandog_work e join given g on g.id = e.id and g.fence = e.fence
where e.queue = (select number from q) and e.id = any($2::text[]::uuid[]) and e.phase = 3
    and e.id <> all(array(select id from locked))
