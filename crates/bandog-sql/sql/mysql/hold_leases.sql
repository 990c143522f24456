-- Reads locks, and keeps their leases from changing until the end of the transaction.
-- $1 names, sorted
-- Result: rows of name, owner, expires, starving, wanted, state, fence.
select l.name, l.owner, timestampdiff(microsecond, '1970-01-01', l.expires), l.starving, l.wanted, l.state, coalesce((select f.fence from bandog_fence f where f.name = l.name), 0)
from bandog_lease l force index (primary) where l.name in ($1) order by l.name lock in share mode
