-- Ends a push in a transaction of the user.
-- $1 the number of the queue, $2 the first element of the push
-- Result: none.
update $schema.bandog_work_kept set element = $2 where queue = $1 and kind = 1 and name = lower(hex($2))
