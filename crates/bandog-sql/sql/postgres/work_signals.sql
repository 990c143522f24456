-- Locks signals, at most 100, and the keys of order of the elements that may become ready.
-- $1 the queue
-- Result: the name of each signal, the key, the element that waits for a predecessor, the key of that one.
with q as materialized (
    select number from bandog_work_queues where name = $1::text
), found as materialized (
    select name, convert_from(content, 'UTF8') as key, element from bandog_work_kept
    where queue = (select number from q) and kind = 4 order by name limit 100 for update skip locked
), following as materialized (
    select n.id, n.order_key from bandog_work n
    where n.queue = (select number from q) and n.id = any(array(select element from found where element is not null))
), keys as materialized (
    select pg_advisory_xact_lock(hash)::text from (
        select hashtextextended('bandog_work ' || q.number || ' ' || key, 0) as hash from q cross join (
            select key from found where key is not null union select order_key from following where order_key is not null
        ) of (key) order by hash
    ) hashes
)
select s.name, s.key, s.element::text, f.order_key, (select count(*) from keys)
from found s left join following f on f.id = s.element
