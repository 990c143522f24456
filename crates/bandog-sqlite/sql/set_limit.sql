-- Writes the number of permits of a semaphore.
-- ?1 name
-- ?2 permits
-- ?3 former: the number before the last change
-- Result: none.
insert into semaphore (name, permits, former) values (?1, ?2, ?3)
on conflict (name) do update set permits = excluded.permits, former = excluded.former;
