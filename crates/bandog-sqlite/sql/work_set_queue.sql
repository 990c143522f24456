-- Replaces the settings of a queue.
-- ?1 id
-- ?2 fence
-- ?3 paused
-- ?4 concurrency
-- ?5 rate
-- ?6 period
-- ?7 next_delivery
-- Result: none.
update work_queue set fence = ?2, paused = ?3, concurrency = ?4, rate = ?5, period = ?6, next_delivery = ?7 where id = ?1;
