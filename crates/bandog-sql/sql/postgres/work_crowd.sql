-- Counts the workers of a queue.
-- $1 the queue
-- Result: their number, at most 100.
select count(*) from (
    select from bandog_work_kept
    where queue = (select number from bandog_work_queue where name = $1::text) and kind = 3
        and until > (extract(epoch from clock_timestamp()) * 1000000)::bigint limit 100
) workers
