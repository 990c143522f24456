-- Removes something that was kept.
-- ?1 queue
-- ?2 kind
-- ?3 id
-- Result: none.
delete from work_kept where queue = ?1 and kind = ?2 and id = ?3;
