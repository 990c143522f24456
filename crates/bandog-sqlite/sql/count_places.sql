-- Counts the places before a place of the same lock.
-- ?1 name
-- ?2 the rank of the place
-- ?3 now
-- ?4 a rank: only places with a greater rank are counted
-- Result: the number.
select count(*) from claim where name = ?1 and fence is null and rank > ?4 and rank < ?2 and expires > ?3;
