-- Registers a client. If the client has an earlier row, this row replaces it.
-- ?1 id
-- ?2 host
-- ?3 pid
-- ?4 program
-- ?5 since
-- ?6 waits: the names, one a line, and then lines that begin with a tab: the blocked calls
-- ?7 ttl
-- ?8 expires
-- ?9 this boot
-- ?10 told: the present wall clock
-- ?11 prefix
-- Result: none.
insert into client (id, host, pid, program, since, waits, ttl, expires, boot, told, prefix)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
on conflict (id) do update set
    host = excluded.host, pid = excluded.pid, program = excluded.program, since = excluded.since,
    waits = excluded.waits, ttl = excluded.ttl, expires = excluded.expires, boot = excluded.boot, told = excluded.told,
    prefix = excluded.prefix;
