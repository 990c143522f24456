-- Reads one lease.
-- ?1 name
-- ?2 this boot
-- Result: no row, or owner, fence, expires, ttl, stamp, whether the hold is of this boot, wanted.
select owner, fence, expires, ttl, stamp, boot = ?2, wanted from lease where name = ?1;
