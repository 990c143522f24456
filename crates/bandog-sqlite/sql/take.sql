-- Grants a free name to an owner, without reading the row of the name first. The last hold must be of this boot, and
-- the last fence must be less than the wall clock. This is the common case for a free name.
-- ?1 name
-- ?2 owner
-- ?3 fence: the end of the reserved block
-- ?4 expires
-- ?5 ttl
-- ?6 this boot
-- ?7 the first fence of the block, which is the wall clock
-- Result: one row changed, or none.
update lease set owner = ?2, fence = ?3, expires = ?4, ttl = ?5, stamp = stamp + 1
where name = ?1 and owner is null and boot = ?6 and fence < ?7;
