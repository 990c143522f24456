-- Reads the leases of mutexes that are held and whose release notifies.
-- $1 names
-- Result: rows of name, owner, time of the expiry, remaining time in microseconds, whether a client starves
select name, owner, expires, (extract(epoch from expires - clock_timestamp()) * 1000000)::bigint, starving
from bandog_lease
where name = any($1) and owner is not null and state is null and wanted and expires > clock_timestamp()
