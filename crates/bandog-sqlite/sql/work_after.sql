-- Reads elements of a phase after a position.
-- ?1 queue
-- ?2 phase
-- ?3 rank
-- ?4 at
-- ?5 id
-- ?6 maximum number of elements
-- Result: rows of the columns of an element, in their order.
select id, phase, at, place, pushed, priority, order_key, attempt, fence, taker, keep, before, waits_for, cancelled, lease from work
where queue = ?1 and phase = ?2 and (rank, at, id) > (?3, ?4, ?5) order by rank, at, id limit ?6;
