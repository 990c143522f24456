-- Reads what is kept.
-- ?1 queue
-- ?2 kind
-- ?3 id
-- Result: no row, or content, until.
select content, until from work_kept where queue = ?1 and kind = ?2 and id = ?3;
