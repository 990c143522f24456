-- Reads the holds and the places of all locks that are not mutexes.
-- ?1 this boot
-- Result: rows of id, fence, expires, ttl, stamp, whether the row is of this boot, kind, rank, name; in no order.
select id, fence, expires, ttl, stamp, boot = ?1, kind, rank, name from claim;
