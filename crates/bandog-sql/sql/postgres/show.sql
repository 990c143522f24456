-- Reads locks.
-- $1 names
-- Result: rows of name, owner, expires, starving, wanted, state, fence, the time at which the transaction began; sorted by
-- name. The rows were read at this time or later. So a lease that has expired by this time was not renewed before it.
select l.name, l.owner, l.expires, l.starving, l.wanted, l.state, f.fence, now()
from bandog_lease l join bandog_fence f on f.name = l.name
where l.name = any ($1::text[]) and f.name = any ($1::text[]) order by l.name
