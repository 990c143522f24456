-- Reads a page of the names of queues.
-- $1 the name after which it begins
-- $2 maximum number
-- Result: the name, and whether the queue has elements, settings or something that is kept.
select q.name, q.is_paused or q.concurrency is not null or q.deliveries is not null
    or exists (select 1 from bandog_work e where e.queue = q.number)
    or exists (select 1 from bandog_work_kept k where k.queue = q.number)
from bandog_work_queues q where q.name > $1 order by q.name limit $2
