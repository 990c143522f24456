-- Writes the payloads of the elements of a push.
-- $1 the numbers of the queue, $2 ids, $3 payloads, $4 whether the element has an id of `once`
-- Result: none.
insert into $schema.bandog_work_body (queue, id, payload)
select g.queue, g.id, g.payload from ($rows(1 queue, 2 id, 3 payload, 4 once)) g
where @bandog_new and (not g.once or instr(@bandog_mine, lower(hex(g.id))) > 0)
