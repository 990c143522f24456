-- Extends a hold or a place.
-- ?1 name
-- ?2 id
-- ?3 expires
-- ?4 ttl
-- ?5 this boot
-- Result: none.
update claim set expires = ?3, ttl = ?4, boot = ?5, stamp = stamp + 1 where name = ?1 and id = ?2;
