-- Reads the holds and the places of one lock that is not a mutex.
-- ?1 name
-- ?2 this boot
-- Result: rows of id, fence, expires, ttl, stamp, whether the row is of this boot, kind, rank; in no order.
select id, fence, expires, ttl, stamp, boot = ?2, kind, rank from claim where name = ?1;
