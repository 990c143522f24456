-- Reads what was kept until a time.
-- ?1 queue
-- ?2 the time
-- ?3 maximum number
-- Result: rows of kind, id.
select kind, id from work_kept where queue = ?1 and until <= ?2 order by until limit ?3;
