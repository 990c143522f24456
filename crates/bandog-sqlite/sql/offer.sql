-- Makes an offer: when an owner frees a name, the name is reserved for a short time for starving clients. These are
-- clients that have waited for it for a second or more. The waiters' mark (`wanted`) is removed, because the process
-- that frees the name notifies the waiters.
-- ?1 name
-- ?2 the owner that represents the offer
-- ?3 expires
-- ?4 ttl
-- ?5 this boot
-- Result: none.
update lease set owner = ?2, expires = ?3, ttl = ?4, boot = ?5, stamp = stamp + 1, wanted = 0 where name = ?1;
