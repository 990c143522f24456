-- Registers a client. If the client has an earlier row, this row replaces it.
-- $1 id, $2 host, $3 pid, $4 program, $5 since, $6 waits, $7 prefix
-- $8 the ttl of the row, in µs
-- Result: none.
insert into bandog_client (id, host, pid, program, since, waits, prefix, expires)
values ($1, $2, $3, $4, $5, $6, $7, clock_timestamp() + $8::bigint * interval '1 microsecond')
on conflict (id) do update set
    host = excluded.host, pid = excluded.pid, program = excluded.program, since = excluded.since,
    waits = excluded.waits, prefix = excluded.prefix, expires = excluded.expires
