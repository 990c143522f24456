-- Says of locked elements that their takers must stop.
-- $1 the queue
-- $2 ids
-- Result: none.
update bandog_work set is_cancelled = true
where queue = (select number from bandog_work_queues where name = $1::text) and id = any($2::text[]::uuid[]) and phase = 3
