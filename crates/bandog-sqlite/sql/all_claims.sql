-- Reads the holds and the places of all locks that are not mutexes.
-- ?1 this boot
-- Result: rows of id, fence, expires, ttl, stamp, whether the row is of this boot, kind, rank, name; sorted by rank.
select id, fence, expires, ttl, stamp, boot = ?1, kind, rank, name from claim order by rank;
