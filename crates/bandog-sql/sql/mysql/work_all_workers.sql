-- Reads the texts of the workers of all queues.
-- Parameters: none.
-- Result: the texts.
select k.content from bandog_work_queues q join bandog_work_kept k force index (primary) on k.queue = q.number and k.kind = 3
where k.until > timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) limit 10000
