-- Reads the elements that were pushed once.
-- $1 the queue
-- $2 the ids of `once`
-- Result: the id of `once`, and the element.
select name, element::text from bandog_work_kept
where queue = (select number from bandog_work_queue where name = $1::text) and kind = 0 and name = any($2::text[])
