-- Reads all leases that have an owner, expired or not.
-- ?1 this boot
-- Result: rows of owner, fence, expires, ttl, stamp, whether the hold is of this boot, wanted, name; sorted by name.
select owner, fence, expires, ttl, stamp, boot = ?1, wanted, name from lease where owner is not null order by name;
