-- Reads the first elements of a phase.
-- ?1 queue
-- ?2 phase
-- ?3 maximum number of elements
-- Result: rows of the columns of an element, in their order.
select id, phase, at, place, pushed, priority, order_key, attempt, fence, taker, keep, before, waits_for, cancelled, lease from work
where queue = ?1 and phase = ?2 order by rank, at, id limit ?3;
