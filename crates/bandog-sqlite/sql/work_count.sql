-- Counts the elements of a phase.
-- ?1 queue
-- ?2 phase
-- ?3 maximum number
-- Result: the number.
select count(*) from (select 1 from work where queue = ?1 and phase = ?2 limit ?3);
