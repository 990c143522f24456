-- Reads locks.
-- $1 names; null for all locks that are not free
-- Result: rows of name, owner, expires, starving, wanted, state, fence, the present time; sorted by name.
select l.name, l.owner, timestampdiff(microsecond, '1970-01-01', l.expires), l.starving, l.wanted, l.state, coalesce((select f.fence from bandog_fence f where f.name = l.name), 0), timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
from bandog_lease l
where coalesce($1) is null and (l.owner is not null or l.state is not null) or l.name in ($1) order by l.name
