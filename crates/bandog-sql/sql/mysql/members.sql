-- Reads the registered clients.
-- Parameters: none.
-- Result: rows of id, host, pid, program, since, waits, prefix.
select id, host, pid, program, timestampdiff(microsecond, '1970-01-01', since), waits, prefix
from bandog_client where expires > utc_timestamp(6)
