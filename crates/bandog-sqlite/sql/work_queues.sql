-- Reads a part of the names of all queues.
-- ?1 the last name of the part before; empty for the first part
-- ?2 maximum number of names
-- Result: rows of name, sorted by name.
select name from work_queue where name > ?1 order by name limit ?2;
