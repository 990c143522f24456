-- Writes the elements that are pushed once.
-- $1 the queue, $2 the first element of the push
-- $3 ids of `once`, $4 elements, $5 windows
-- Result: none.
insert into $schema.bandog_work_kept (queue, kind, name, until, element)
select r.queue, 0, g.name, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) + g.span, g.element
from ($rows(3 name, 4 element, 5 span)) g
join $schema.bandog_work_queue q on q.name = $1
join $schema.bandog_work_kept r on r.queue = q.number and r.kind = 1 and r.name = lower(hex($2)) and r.element is null
order by g.name
on duplicate key update
    element = if($schema.bandog_work_kept.until <= timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)), values(element), $schema.bandog_work_kept.element),
    until = if($schema.bandog_work_kept.until <= timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)), values(until), $schema.bandog_work_kept.until)
