-- Deletes a hold or a place.
-- ?1 name
-- ?2 id
-- Result: none.
delete from claim where name = ?1 and id = ?2;
