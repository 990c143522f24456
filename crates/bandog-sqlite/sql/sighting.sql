-- Reads this boot's sighting of a hold of another boot.
-- ?1 name
-- ?2 this boot
-- Result: no row, or since, stamp.
select since, stamp from sighting where name = ?1 and boot = ?2;
