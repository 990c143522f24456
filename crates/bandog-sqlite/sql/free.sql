-- Frees a name, if this owner holds it by the clock of this boot and the waiters' mark (`wanted`) is not set. This is
-- the common case.
-- ?1 name
-- ?2 owner
-- ?3 this boot
-- ?4 now
-- Result: one row changed, or none.
update lease set owner = null where name = ?1 and owner = ?2 and boot = ?3 and expires > ?4 and wanted = 0;
