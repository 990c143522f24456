-- Adds an element.
-- ?1 queue
-- ?2 id
-- ?3 phase
-- ?4 rank
-- ?5 at
-- ?6 place
-- ?7 pushed
-- ?8 priority
-- ?9 order_key
-- ?10 attempt
-- ?11 fence
-- ?12 taker
-- ?13 keep
-- ?14 before
-- ?15 waits_for
-- ?16 cancelled
-- ?17 lease
-- ?18 boot
-- Result: none.
insert into work (queue, id, phase, rank, at, place, pushed, priority, order_key, attempt, fence, taker, keep, before,
    waits_for, cancelled, lease, boot)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18);
