-- Adds the payload of an element.
-- ?1 queue
-- ?2 id
-- ?3 payload
-- Result: none.
insert into work_body (queue, id, payload) values (?1, ?2, ?3);
