-- Locks ids of `once` until the end of the transaction, before it locks keys of order: it may wait for a transaction of the
-- user, and must hold no key meanwhile. An id that is not there is written as one whose window is over.
-- $1 the queue
-- $2 the ids, each once, and $3 an element for each
-- Result: none.
insert into bandog_work_kept (queue, kind, name, until, element)
select q.number, 0, g.name, 0, g.element::uuid
from bandog_work_queues q cross join unnest($2::text[], $3::text[]) g (name, element) where q.name = $1::text order by g.name
on conflict (queue, kind, name) do update set until = bandog_work_kept.until
