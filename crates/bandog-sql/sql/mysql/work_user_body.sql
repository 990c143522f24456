-- Writes the payloads of the elements of a push.
-- $1 the queue, $2 the first element of the push
-- $3 ids, $4 payloads, $5 ids of `once` or nulls
-- Result: none.
insert into $schema.bandog_work_body (queue, id, payload)
select r.queue, g.id, g.payload
from ($rows(3 id, 4 payload, 5 once)) g
join $schema.bandog_work_queue q on q.name = $1
join $schema.bandog_work_kept r on r.queue = q.number and r.kind = 1 and r.name = lower(hex($2)) and r.element is null
left join $schema.bandog_work_kept o on o.queue = q.number and o.kind = 0 and o.name = g.once
where g.once is null or o.element = g.id
