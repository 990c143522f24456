-- Reads the clients whose rows have not expired. The rule is that of prune.sql.
-- ?1 this boot
-- ?2 now
-- ?3 the wall clock
-- Result: rows of id, host, pid, program, since, waits, prefix.
select id, host, pid, program, since, waits, prefix from client
where case when boot = ?1 and expires - ttl <= ?2 then expires > ?2 else abs(?3 - told) < ttl end;
