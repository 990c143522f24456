-- Checks whether an element with this key is ready, delayed or taken.
-- ?1 queue
-- ?2 order_key
-- Result: no row, or one row.
select 1 from work where queue = ?1 and order_key = ?2 and phase in (0, 1, 3) limit 1;
