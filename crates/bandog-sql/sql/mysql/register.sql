-- Registers a client. If the client has an earlier row, this row replaces it.
-- $1 id, $2 host, $3 pid, $4 program, $5 since, $6 waits, $7 prefix
-- $8 the ttl of the row, in microseconds
-- Result: none.
insert into bandog_client (id, host, pid, program, since, waits, prefix, expires)
values ($1, $2, $3, $4, $5, $6, $7, utc_timestamp(6) + interval $8 microsecond)
on duplicate key update
    host = values(host), pid = values(pid), program = values(program), since = values(since), waits = values(waits),
    prefix = values(prefix), expires = values(expires)
