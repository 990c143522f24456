-- Removes an element that is held.
-- $1 the number of the queue, $2 the element
-- Result: none.
delete e, b from $schema.bandog_work e
straight_join $schema.bandog_work_body b on b.queue = e.queue and b.id = e.id
where e.queue = $1 and e.id = $2
