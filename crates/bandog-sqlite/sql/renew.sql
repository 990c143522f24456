-- Renews a hold.
-- ?1 name
-- ?2 expires
-- ?3 ttl
-- ?4 this boot
-- Result: none.
update lease set expires = ?2, ttl = ?3, boot = ?4, stamp = stamp + 1 where name = ?1;
