-- Reads the texts of the workers of all queues.
-- Parameters: none.
-- Result: the texts.
select convert_from(k.content, 'UTF8') from bandog_work_queues q join bandog_work_kept k on k.queue = q.number and k.kind = 3
where k.until > (extract(epoch from clock_timestamp()) * 1000000)::bigint limit 10000
