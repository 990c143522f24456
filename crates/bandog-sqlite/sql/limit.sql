-- Reads the number of permits of a semaphore.
-- ?1 name
-- Result: no row, or permits, former.
select permits, former from semaphore where name = ?1;
