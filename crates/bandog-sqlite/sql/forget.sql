-- Deletes the sightings of a hold that has ended, of all boots that have observed it.
-- ?1 name
-- Result: none.
delete from sighting where name = ?1;
