-- Reads locks, and keeps their holds from ending or changing their owner until the end of the transaction, except that they
-- expire. Claims, releases and evictions lock the row `for update`, which conflicts with this lock. Renewals do not.
-- $1 names, sorted
-- Result: rows of name, owner, expires, starving, wanted, state, fence.
select l.name, l.owner, l.expires, l.starving, l.wanted, l.state, f.fence
from bandog_lease l join bandog_fence f on f.name = l.name
where l.name = any ($1::text[]) and f.name = any ($1::text[]) order by l.name for key share of l
