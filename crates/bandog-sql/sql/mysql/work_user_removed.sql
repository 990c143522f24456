-- Removes an element that is held.
-- $1 the queue, $2 the element
-- Result: none.
delete e, b from $schema.bandog_work_queue q
straight_join $schema.bandog_work e on e.queue = q.number and e.id = $2
straight_join $schema.bandog_work_body b on b.queue = e.queue and b.id = e.id
where q.name = $1
