-- Reads the texts of the workers of all queues.
-- ?1 the time until which they are kept at least
-- Result: rows of text.
select w.content from work_queue q join work_kept w on w.queue = q.id and w.kind = 3 where w.until > ?1;
