-- Deletes the number of permits of a semaphore.
-- ?1 name
-- Result: none.
delete from semaphore where name = ?1;
