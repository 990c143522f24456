-- Writes the elements that are pushed once.
-- $1 the numbers of the queue, $2 ids of `once`, $3 elements, $4 windows
-- Result: none.
insert into $schema.bandog_work_kept (queue, kind, name, until, element)
select g.queue, 0, g.name, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) + g.span, g.element
from ($rows(1 queue, 2 name, 3 element, 4 span)) g
where @bandog_new order by g.name
on duplicate key update
    element = if($schema.bandog_work_kept.until <= timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)),
        values(element), $schema.bandog_work_kept.element),
    until = if($schema.bandog_work_kept.until <= timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)),
        values(until), $schema.bandog_work_kept.until)
