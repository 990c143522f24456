-- Reads the first blocked element with a key whose predecessors are done.
-- ?1 queue
-- ?2 order_key
-- Result: no row, or the columns of an element.
select id, phase, at, place, pushed, priority, order_key, attempt, fence, taker, keep, before, waits_for, cancelled, lease from work
where queue = ?1 and order_key = ?2 and phase = 2 and waits_for = 0 order by at, id limit 1;
