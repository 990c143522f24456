-- Locks elements that no other transaction has locked, and their keys of order, until the end of the transaction. The rows
-- come before the keys in each transaction.
-- $1 the queue
-- $2 ids
-- Result: for each locked element its id, phase, fence, attempt, whether it is cancelled, whether its time is over, its
-- key of order, the element that waits for it, the key of that one, whether its result is kept.
with q as materialized (
    select number from bandog_work_queues where name = $1::text
), locked as materialized (
    select e.id, e.phase, e.fence, e.attempt, e.is_cancelled, e.at, e.order_key, e.before, e.keep_result from bandog_work e
    where e.queue = (select number from q) and e.id = any($2::text[]::uuid[]) order by e.id
    for update skip locked
), following as materialized (
    select n.id, n.order_key from bandog_work n
    where n.queue = (select number from q) and n.id = any(array(select before from locked where before is not null))
), keys as materialized (
    select pg_advisory_xact_lock(hash)::text from (
        select hashtextextended('bandog_work ' || q.number || ' ' || key, 0) as hash from q cross join (
            select order_key from locked where order_key is not null
            union select order_key from following where order_key is not null
        ) of (key) order by hash
    ) hashes
)
select l.id::text, l.phase::bigint, l.fence, l.attempt::bigint, l.is_cancelled,
    l.at <= (extract(epoch from clock_timestamp()) * 1000000)::bigint, l.order_key, l.before::text, f.order_key,
    l.keep_result is not null, (select count(*) from keys)
from locked l left join following f on f.id = l.before
