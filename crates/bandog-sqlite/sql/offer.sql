-- offer
-- Keeps a name that its owner frees for clients that starve for it, and takes the marks of those who wait: whoever frees
-- it rings for them.
-- ?1 name
-- ?2 the owner that stands for the offer
-- ?3 expires
-- ?4 ttl
-- ?5 this boot
-- Result: none.
update lease set owner = ?2, expires = ?3, ttl = ?4, boot = ?5, stamp = stamp + 1, wanted = 0 where name = ?1;
