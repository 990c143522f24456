-- Keeps the result of a delivery that is held.
-- $1 the number of the queue, $2 the element, $3 the result
-- Result: none.
insert into $schema.bandog_work_kept (queue, kind, name, until, content)
select e.queue, 2, lower(hex(e.id)), timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) + e.keep_result, concat('d', $3)
from $schema.bandog_work e
where e.queue = $1 and e.id = $2 and e.keep_result is not null
on duplicate key update until = values(until), content = values(content)
