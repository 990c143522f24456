-- Leaves a signal for each new element with a key of order that waits for no predecessor.
-- $1 the queue, $2 the first element of the push
-- $3 ids
-- Result: none.
insert ignore into $schema.bandog_work_kept (queue, kind, name, until, content)
select e.queue, 4, concat(lower(hex(e.id)), ' 0'), 9223372036854775807, e.order_key
from ($rows(3 id)) g
join $schema.bandog_work_queue q on q.name = $1
join $schema.bandog_work_kept r on r.queue = q.number and r.kind = 1 and r.name = lower(hex($2)) and r.element is null
join $schema.bandog_work e on e.queue = q.number and e.id = g.id
where e.order_key is not null and e.waits_for = 0
