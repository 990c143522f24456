-- Frees a name and takes the mark of those who wait: whoever frees it rings for them.
-- ?1 name
-- Result: none.
update lease set owner = null, wanted = 0 where name = ?1;
