-- Reads locks and locks their rows, in the order of their names, until the end of the transaction. A lock is left out if
-- another transaction has locked one of its rows.
-- $1 names, sorted
-- Result: rows of name, owner, expires, starving, wanted, state, fence, the present time.
select l.name, l.owner, l.expires, l.starving, l.wanted, l.state, f.fence, clock_timestamp()
from bandog_lease l join bandog_fence f on f.name = l.name
where l.name = any ($1::text[]) and f.name = any ($1::text[]) order by l.name for update of l, f skip locked
