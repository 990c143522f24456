-- Reads a page of the names of queues.
-- $1 the name after which it begins
-- $2 maximum number
-- Result: the name, and whether the queue has elements, settings or something that is kept.
select q.name, q.is_paused or q.concurrency is not null or q.deliveries is not null
    or exists (select from bandog_work e where e.queue::bigint = q.number and e.phase = 0 offset 0)
    or exists (select from bandog_work e where e.queue::bigint = q.number and e.phase <> 0 offset 0)
    or exists (select from bandog_work_kept k where k.queue = q.number offset 0)
from bandog_work_queues q where q.name > $1::text order by q.name limit $2::bigint
