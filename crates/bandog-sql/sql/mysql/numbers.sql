-- Reads the numbers of channels, and the leases of mutexes that are held and whose release notifies.
-- $1 channels
-- $2 names
-- Result: rows of name, number, owner, time of the expiry, remaining time in microseconds, whether a client starves. A
-- channel has a number and no owner; one that was not notified for long has no row. A lease has an owner and no number.
select name, number, null, null, null, null from bandog_channel where name in ($1)
union all
select name, null, owner, timestampdiff(microsecond, '1970-01-01', expires),
    timestampdiff(microsecond, utc_timestamp(6), expires), starving
from bandog_lease
where name in ($2) and owner is not null and state is null and wanted and expires > utc_timestamp(6)
