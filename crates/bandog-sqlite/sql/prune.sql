-- Deletes the expired rows of clients. A row of this boot expires by the boot's clock. The clock of another boot cannot
-- be read, so a row of another boot expires by the wall clock. If that was set meanwhile, the row expires early or
-- late; no lock depends on it.
-- ?1 this boot
-- ?2 now
-- ?3 the wall clock
-- Result: none.
delete from client
where not case when boot = ?1 and expires - ttl <= ?2 then expires > ?2 else abs(?3 - told) < ttl end;
