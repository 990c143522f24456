-- Replaces the progress of a locked element.
-- $1 the id, $2 the progress
-- Result: none.
update bandog_work_body set progress = $2 where queue = @bandog_queue and id = $1
