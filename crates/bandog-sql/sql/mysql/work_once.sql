-- Reads the elements that were pushed once, and locks their rows. For an id without one, a row is created that has ended.
-- $1 ids of `once`, sorted, $2 zeros, $3 the numbers of the queue, $4 the new elements
-- Result: rows of the id, the element, the end of the window.
insert ignore into bandog_work_kept (name, kind, until, queue, element) values $values(1, 2, 2, 3, 4);
select name, lower(hex(element)), until from bandog_work_kept force index (primary)
where queue = @bandog_queue and kind = 0 and name in ($1) order by name for update
