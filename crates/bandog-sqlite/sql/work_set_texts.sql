-- Replaces the texts about an element.
-- ?1 queue
-- ?2 id
-- ?3 error
-- ?4 progress
-- Result: none.
update work_body set error = ?3, progress = ?4 where queue = ?1 and id = ?2;
