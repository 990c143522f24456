-- Reads the first places of one lock.
-- ?1 name
-- ?2 this boot
-- ?3 the maximum number of rows
-- Result: rows of id, fence, expires, ttl, stamp, whether the row is of this boot, kind, rank; sorted by rank.
select id, fence, expires, ttl, stamp, boot = ?2, kind, rank from claim
where name = ?1 and fence is null order by rank limit ?3;
