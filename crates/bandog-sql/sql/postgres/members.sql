-- Reads the registered clients.
-- Parameters: none.
-- Result: rows of id, host, pid, program, since, waits, prefix.
select id, host, pid, program, since, waits, prefix from bandog_client where expires > clock_timestamp()
