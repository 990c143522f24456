-- Deletes the holds and the places of a lock.
-- ?1 name
-- Result: none.
delete from claim where name = ?1;
