-- Reads the texts of the workers of a queue.
-- $1 the queue
-- Result: the texts.
select convert_from(content, 'UTF8') from bandog_work_kept
where queue = (select number from bandog_work_queues where name = $1::text) and kind = 3
    and until > (extract(epoch from clock_timestamp()) * 1000000)::bigint order by name limit 10000
