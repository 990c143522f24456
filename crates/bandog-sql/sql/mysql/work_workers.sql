-- Reads the texts of the workers of a queue.
-- $1 the queue
-- Result: the texts.
select k.content from bandog_work_queues q join bandog_work_kept k force index (primary) on k.queue = q.number and k.kind = 3
where q.name = $1 and k.until > timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) order by k.name limit 10000
