-- Reads the elements of a take that are still taken.
-- ?1 queue
-- ?2 taker
-- Result: rows of the columns of an element.
select id, phase, at, place, pushed, priority, order_key, attempt, fence, taker, keep, before, waits_for, cancelled, lease
from work indexed by work_order
where queue = ?1 and phase = 3 and taker = ?2 order by fence;
