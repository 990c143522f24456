-- Reads locks.
-- $1 names
-- Result: rows of name, owner, expires, starving, wanted, state, fence, the time at which the statement began; sorted by
-- name. The rows were read at this time or later. So a lease that has expired by this time was not renewed before it.
select l.name, l.owner, timestampdiff(microsecond, '1970-01-01', l.expires), l.starving, l.wanted, l.state, coalesce((select f.fence from bandog_fence f where f.name = l.name), 0), timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
from bandog_lease l where l.name in ($1) order by l.name
