-- Reads taken elements whose leases are of the clock of another boot. It reads no other rows.
-- ?1 queue
-- ?2 this boot
-- ?3 maximum number of elements
-- Result: rows of the columns of an element.
select id, phase, at, place, pushed, priority, order_key, attempt, fence, taker, keep, before, waits_for, cancelled, lease
from work indexed by work_boot where queue = ?1 and phase = 3 and boot < ?2
union all
select id, phase, at, place, pushed, priority, order_key, attempt, fence, taker, keep, before, waits_for, cancelled, lease
from work indexed by work_boot where queue = ?1 and phase = 3 and boot > ?2
limit ?3;
