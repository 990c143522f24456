-- Ends a push in a transaction of the user.
-- $1 the queue, $2 the first element of the push
-- Result: none.
update $schema.bandog_work_kept set element = $2
where queue = (select q.number from $schema.bandog_work_queue q where q.name = $1) and kind = 1 and name = lower(hex($2))
