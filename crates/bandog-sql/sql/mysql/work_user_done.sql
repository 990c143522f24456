-- Leaves a signal for the elements that wait for the end of one that is held.
-- $1 the number of the queue, $2 the element
-- Result: none.
insert ignore into $schema.bandog_work_kept (queue, kind, name, until, element, content)
select e.queue, 4, concat(lower(hex(e.id)), ' ', e.fence), 9223372036854775807, e.before_id, if(e.phase = 4, null, e.order_key)
from $schema.bandog_work e
where e.queue = $1 and e.id = $2
    and (e.order_key is not null or e.before_id is not null)
