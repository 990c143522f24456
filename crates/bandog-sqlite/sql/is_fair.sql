-- Checks whether the owner of a lease holds the name as a fair mutex.
-- ?1 name
-- ?2 owner
-- Result: no row, or one row.
select 1 from claim where name = ?1 and id = ?2;
