-- Reads locks.
-- $1 names; null for all locks that are not free
-- Result: rows of name, owner, expires, starving, wanted, state, fence, the present time; sorted by name.
select l.name, l.owner, l.expires, l.starving, l.wanted, l.state, f.fence, clock_timestamp()
from bandog_lease l join bandog_fence f on f.name = l.name
where case when $1::text[] is null then l.owner is not null or l.state is not null else l.name = any ($1::text[]) end
order by l.name
