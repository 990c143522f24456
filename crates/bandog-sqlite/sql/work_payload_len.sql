-- Reads the length of the payload of an element, in bytes.
-- ?1 queue
-- ?2 id
-- Result: no row, or the length.
select length(payload) from work_body where queue = ?1 and id = ?2;
