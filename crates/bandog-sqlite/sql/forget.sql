-- Deletes the sightings by all boots of a hold that has ended.
-- ?1 name
-- Result: none.
delete from sighting where name = ?1;
