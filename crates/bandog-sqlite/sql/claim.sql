-- Reads one hold or one place.
-- ?1 name
-- ?2 this boot
-- ?3 id
-- Result: no row, or id, fence, expires, ttl, stamp, whether the row is of this boot, kind, rank.
select id, fence, expires, ttl, stamp, boot = ?2, kind, rank from claim where name = ?1 and id = ?3;
