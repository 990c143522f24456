-- Keeps rows for a time, or replaces them.
-- $1 kinds, $2 names, $3 until, $4 elements, $5 contents, $6 the numbers of the queue
-- Result: none.
insert into bandog_work_kept (kind, name, until, element, content, queue) values $values(1, 2, 3, 4, 5, 6)
on duplicate key update until = values(until), element = values(element), content = values(content)
