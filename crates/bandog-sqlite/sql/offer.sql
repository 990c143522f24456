-- offer
-- Reserves a name that its owner frees for the clients that starve for it, and removes the waiters' mark: the process
-- that frees it notifies the waiters.
-- ?1 name
-- ?2 the owner that represents the offer
-- ?3 expires
-- ?4 ttl
-- ?5 this boot
-- Result: none.
update lease set owner = ?2, expires = ?3, ttl = ?4, boot = ?5, stamp = stamp + 1, wanted = 0 where name = ?1;
