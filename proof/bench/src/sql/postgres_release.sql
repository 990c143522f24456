-- Frees a lock of the floor.
-- $1 name
-- $2 owner
-- Result: none; the number of changed rows is 1 if the owner had the lock.
update floor.lock set owner = null where name = $1 and owner = $2
