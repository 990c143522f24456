-- Removes an element.
-- ?1 queue
-- ?2 id
-- Result: none.
delete from work where queue = ?1 and id = ?2;
