-- Reads locks and locks the rows of their leases, in the order of their names, until the end of the transaction. The rows
-- of their fences stay free. Rows that another transaction has locked are skipped.
-- $1 names, sorted
-- Result: rows of name, owner, expires, starving, wanted, state, fence, the time after the rows were locked.
select l.name, l.owner, timestampdiff(microsecond, '1970-01-01', l.expires), l.starving, l.wanted, l.state, coalesce((select f.fence from bandog_fence f where f.name = l.name), 0)
from bandog_lease l force index (primary) where l.name in ($1) order by l.name for update skip locked;
select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
