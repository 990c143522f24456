-- Frees a lock of the floor.
-- Parameters: name, owner.
-- Result: none; the number of changed rows is 1 if the owner had the lock.
update floor_lock set owner = null where name = ? and owner = ?
