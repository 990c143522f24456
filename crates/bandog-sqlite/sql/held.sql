-- Reads all leases that have an owner, run out or not.
-- Parameters: none.
-- Result: rows of owner, fence, expires, ttl, stamp, boot, wanted, name; sorted by name.
select owner, fence, expires, ttl, stamp, boot, wanted, name from lease where owner is not null order by name;
