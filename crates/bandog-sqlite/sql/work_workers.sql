-- Reads the texts of workers.
-- ?1 queue
-- ?2 now
-- Result: rows of content.
select content from work_kept where queue = ?1 and kind = 3 and until > ?2 order by id;
