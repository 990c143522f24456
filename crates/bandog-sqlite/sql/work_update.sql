-- Replaces what changes of an element.
-- ?1 queue
-- ?2 id
-- ?3 phase
-- ?4 rank
-- ?5 at
-- ?6 place
-- ?7 attempt
-- ?8 fence
-- ?9 taker
-- ?10 waits_for
-- ?11 cancelled
-- ?12 lease
-- ?13 boot
-- Result: none.
update work set phase = ?3, rank = ?4, at = ?5, place = ?6, attempt = ?7, fence = ?8, taker = ?9, waits_for = ?10,
    cancelled = ?11, lease = ?12, boot = ?13
where queue = ?1 and id = ?2;
