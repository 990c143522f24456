-- Deletes the expired rows of clients. A row that was written in this boot expires by the boot's clock. The clock of
-- another boot cannot be read, so a row of another boot expires by the wall clock. If the wall clock was set meanwhile,
-- the row expires too early or too late. No lock depends on these rows.
-- ?1 this boot
-- ?2 now
-- ?3 the wall clock
-- Result: none.
delete from client
where not case when boot = ?1 and expires - ttl <= ?2 then expires > ?2 else abs(?3 - told) < ttl end;
