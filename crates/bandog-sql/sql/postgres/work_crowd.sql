-- Counts the workers of a queue that have a free slot. The second word of their texts is the number of slots, the third one that
-- of those in use.
-- $1 the queue
-- Result: their number, at most 100.
select count(*) from (
    select from bandog_work_kept cross join lateral string_to_array(convert_from(content, 'UTF8'), ' ') words
    where queue = (select number from bandog_work_queues where name = $1::text) and kind = 3
        and until > (extract(epoch from clock_timestamp()) * 1000000)::bigint and words[2] <> words[3] limit 100
) workers
