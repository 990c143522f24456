-- Ends a delivery as done in a transaction of the user. It leaves signals for the elements that wait for its end, because
-- their keys must not stay locked until the end of this transaction.
-- $1 the queue
-- $2 the id and $3 the fence of the delivery
-- $4 the result, hexadecimal
-- $5 the channel for results, $6 the channel of the queue
-- $7 the id of the store
-- Result: 1. If the delivery is not held, the conversion to a number fails, and its error has the reason.
with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
), q as materialized (
    select number, concurrency from bandog_work_queues where name = $1::text
), held as materialized (
    select e.id, e.fence, e.order_key, e.before, e.keep_result, e.phase from bandog_work e
    where e.queue = (select number from q) and e.id = $2::text::uuid and e.fence = $3::text::bigint for update
), removed as (
    delete from bandog_work e where e.queue = (select number from q) and e.id = (select id from held)
), removed_body as (
    delete from bandog_work_body e where e.queue = (select number from q) and e.id = (select id from held)
), kept as (
    insert into bandog_work_kept as k (queue, kind, name, until, content)
    select q.number, 2, h.id::text, clock.now + h.keep_result, '\x64'::bytea || decode($4::text, 'hex') from q, clock, held h
    where h.keep_result is not null
    on conflict (queue, kind, name) do update set until = excluded.until, content = excluded.content returning 1
), signals as (
    insert into bandog_work_kept (queue, kind, name, until, element, content)
    select q.number, 4, h.id::text || ' ' || h.fence, 9223372036854775807, h.before, convert_to(h.order_key, 'UTF8')
    from q, held h where h.order_key is not null and h.phase <> 4 or h.before is not null returning 1
), notified as materialized (
    select pg_notify($5::text, '')::text where exists (select from kept)
    union all
    select pg_notify($6::text, '')::text where exists (select from signals) or (select concurrency from q) is not null
)
select (case
    when (select value from $schema.bandog_meta where name = 'id') is distinct from $7::text
        then 'bandog: this is not the database of the lock'
    when not exists (select from held) then 'bandog: this delivery does not have the element'
    when (select count(*) from notified) >= 0 then '1'
end)::bigint as fence
