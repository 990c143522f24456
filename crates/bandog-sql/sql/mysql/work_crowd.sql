-- Counts the workers of a queue that have a free slot. The second word of their texts is the number of slots, the third one that
-- of those in use.
-- $1 the queue
-- Result: their number, at most 100.
select count(*) from (
    select 1 from bandog_work_queues q join bandog_work_kept k force index (primary) on k.queue = q.number and k.kind = 3
    where q.name = $1 and k.until > timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
        and substring_index(substring_index(k.content, ' ', 2), ' ', -1)
            <> substring_index(substring_index(k.content, ' ', 3), ' ', -1) limit 100
) workers
