-- Leaves a signal for each new element with a key of order that waits for no predecessor.
-- $1 the numbers of the queue, $2 ids, $3 keys of order, $4 whether the element has an id of `once`
-- Result: none.
insert ignore into $schema.bandog_work_kept (queue, kind, name, until, content)
select g.queue, 4, concat(lower(hex(g.id)), ' 0'), 9223372036854775807, g.order_key
from ($rows(1 queue, 2 id, 3 order_key, 4 once)) g
where @bandog_new and (not g.once or instr(@bandog_mine, lower(hex(g.id))) > 0)
