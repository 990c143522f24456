-- Locks keys of order until the end of the transaction. The next statement sees what earlier holders have committed.
-- $1 the queue
-- $2 the keys
-- Result: rows without a meaning.
select pg_advisory_xact_lock(hash)::text from (
    select distinct hashtextextended('bandog_work ' || q.number || ' ' || key, 0) as hash
    from bandog_work_queues q cross join unnest($2::text[]) key where q.name = $1::text order by hash
) hashes
