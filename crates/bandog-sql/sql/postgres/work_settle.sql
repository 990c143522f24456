-- Ends deliveries, except those of elements that another transaction has locked. None is ended if another element waits for
-- the end of one, unless its key of order is locked (`work_lock`).
-- $1 the queue
-- $2 the ids and $3 the fences of the deliveries, $4 how each ends: 0 done, 1 repeated, 2 failed, 3 handed back
-- $5 the delays in µs, $6 the results or errors, $7 the channels for results, $8 the channel of the queue
-- $9 the ids of the elements that this transaction has locked together with their keys; null: none, and none has a key
-- Result: whether the deliveries are ended; for each its number from 1 on, and `absent`, `busy`, `lost` or another text if it
-- is applied.
with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
), q as materialized (
    select number, concurrency from bandog_work_queues where name = $1::text
), acts as materialized (
    select g.ord, g.id, g.delay, g.body, g.channel, f.keep_result, f.is_awaited, case
        when f.id is null then case when exists (
            select from bandog_work e where e.queue = (select number from q) and e.id = g.id offset 0) then 'busy' else 'absent' end
        when f.fence <> g.fence then 'lost'
        when g.ending = 0 then 'done'
        when g.ending = 2 and f.phase = 4 then 'nothing'
        when g.ending = 2 and not f.is_cancelled then 'dead'
        when f.phase = 4 then 'lost'
        when f.phase <> 3 then 'nothing'
        when f.is_cancelled then 'cancelled'
        when g.ending = 1 then 'again'
        else 'back' end as act
    from unnest($2::text[]::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[], $7::text[]) with ordinality
        g (id, fence, ending, delay, body, channel, ord)
    left join lateral (
        select e.id, e.phase, e.fence, e.is_cancelled, e.keep_result, e.order_key is not null or e.before is not null as is_awaited
        from bandog_work e
        where e.queue = (select number from q) and e.id = g.id and ($9::text[] is null or g.id = any($9::text[]::uuid[]))
        for update skip locked
    ) f on true
), ends as materialized (
    select $9::text[] is not null or not exists (select from acts where act in ('done', 'cancelled', 'dead') and is_awaited) as all
), removed as (
    delete from bandog_work e where e.queue = (select number from q) and (select "all" from ends)
        and e.id = any(array(select id from acts where act in ('done', 'cancelled')))
), removed_body as (
    delete from bandog_work_body e where e.queue = (select number from q) and (select "all" from ends)
        and e.id = any(array(select id from acts where act in ('done', 'cancelled')))
), changed as (
    update bandog_work e
    set phase = case when a.act = 'dead' then 4 when a.delay > 0 then 1 else 0 end,
        at = case when a.act = 'dead' then clock.now when a.act = 'again' or a.delay > 0 then clock.now + a.delay else e.place end,
        place = case when a.act = 'again' or a.act = 'back' and a.delay > 0 then clock.now + a.delay else e.place end,
        attempt = case a.act when 'back' then greatest(e.attempt - 1, 0) else e.attempt end,
        taker = null, take = null
    from acts a, clock
    where e.queue = (select number from q) and (select "all" from ends)
        and e.id = any(array(select id from acts where act in ('dead', 'again', 'back'))) and e.id = a.id
    returning a.act
), texts as (
    update bandog_work_body b set error = a.body, progress = null from acts a
    where b.queue = (select number from q) and (select "all" from ends)
        and b.id = any(array(select id from acts where act in ('dead', 'again'))) and b.id = a.id
), results as (
    insert into bandog_work_kept as k (queue, kind, name, until, content)
    select q.number, 2, a.id::text, clock.now + a.keep_result,
        case a.act when 'done' then '\x64'::bytea || a.body when 'dead' then '\x66'::bytea || a.body else '\x63'::bytea end
    from q, clock, acts a
    where a.keep_result is not null and a.act in ('done', 'cancelled', 'dead') and (select "all" from ends) order by a.id
    on conflict (queue, kind, name) do update set until = excluded.until, content = excluded.content
), notified as materialized (
    select pg_notify(channel, '')::text from (
        select distinct a.channel from acts a
        where a.keep_result is not null and a.act in ('done', 'cancelled', 'dead') and (select "all" from ends)
        union
        select $8::text where exists (select from changed where act <> 'dead')
            or (select concurrency from q) is not null and (select "all" from ends) and exists (
                select from bandog_work e where e.queue::bigint = (select number from q) and e.phase = 0)
    ) channels (channel)
)
select (select "all" from ends), a.ord, a.act, (select count(*) from notified) from acts a
