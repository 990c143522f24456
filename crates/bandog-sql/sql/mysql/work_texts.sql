-- Replaces the error and the progress of a locked element.
-- $1 the id, $2 the error, $3 the progress
-- Result: none.
update bandog_work_body set error = $2, progress = $3 where queue = @bandog_queue and id = $1
