-- Reads one lease.
-- ?1 name
-- Result: no row, or owner, fence, expires, ttl, stamp, boot, wanted.
select owner, fence, expires, ttl, stamp, boot, wanted from lease where name = ?1;
