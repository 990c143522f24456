-- Deletes what any boot has seen of a hold that has ended.
-- ?1 name
-- Result: none.
delete from sighting where name = ?1;
