-- Remembers a push for 5 minutes.
-- $1 its first element
-- Result: whether it is new.
insert ignore into bandog_work_kept (queue, kind, name, until, element)
select q.number, 1, lower(hex($1)), timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) + 300000000, $1 from bandog_work_queues q where q.number = @bandog_queue;
select row_count() = 1
