-- Writes the payloads of new elements.
-- $1 the numbers of the queue, $2 ids, $3 payloads
-- Result: none.
insert into bandog_work_body (queue, id, payload) values $values(1, 2, 3)
