-- Reads all leases that have an owner, run out or not.
-- ?1 this boot
-- Result: rows of owner, fence, expires, ttl, stamp, whether this boot counted it, wanted, name; sorted by name.
select owner, fence, expires, ttl, stamp, boot = ?1, wanted, name from lease where owner is not null order by name;
