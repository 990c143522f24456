-- Deletes the sightings of all holds and places of a lock. Those of the table `claim` have the name, a newline and the
-- claim as their name.
-- ?1 name
-- Result: none.
delete from sighting where name = ?1 or (name > ?1 || char(10) and name < ?1 || char(11));
