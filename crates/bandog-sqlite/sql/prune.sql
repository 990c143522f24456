-- Deletes the rows of clients that were not announced again in time. A row of this boot ends by the boot's clock. The
-- clock of another boot cannot be read, so there the wall clock must do: it may have been set meanwhile, and then the
-- row ends early or late, which costs nobody a lock.
-- ?1 this boot
-- ?2 now
-- ?3 the wall clock
-- Result: none.
delete from client
where not case when boot = ?1 and expires - ttl <= ?2 then expires > ?2 else abs(?3 - told) < ttl end;
