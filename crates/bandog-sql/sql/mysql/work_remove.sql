-- Removes locked elements.
-- $1 ids
-- Result: none.
delete e, b from ($rows(1 id)) removed
straight_join bandog_work e force index (primary) on e.queue = @bandog_queue and e.id = removed.id
left join bandog_work_body b force index (primary) on b.queue = e.queue and b.id = e.id
