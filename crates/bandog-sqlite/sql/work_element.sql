-- Reads an element.
-- ?1 queue
-- ?2 id
-- Result: no row, or the columns of an element.
select id, phase, at, place, pushed, priority, order_key, attempt, fence, taker, keep, before, waits_for, cancelled, lease from work where queue = ?1 and id = ?2;
