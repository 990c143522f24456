-- Reads the texts of an element.
-- ?1 queue
-- ?2 id
-- Result: no row, or payload, error, progress.
select payload, error, progress from work_body where queue = ?1 and id = ?2;
