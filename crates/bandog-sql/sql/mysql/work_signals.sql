-- Reads signals of the queue, at most 100, and locks those that no transaction has locked.
-- $1 a parameter without a meaning
-- Result: the name, the key of order, the element that waits for a predecessor.
select name, content, lower(hex(element)) from bandog_work_kept force index (primary)
where queue = @bandog_queue and kind = 4 order by name limit 100 for update skip locked
