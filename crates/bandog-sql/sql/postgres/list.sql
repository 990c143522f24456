-- Reads all locks that are not free. It reads the whole table.
-- Parameters: none.
-- Result: as `show`.
select l.name, l.owner, l.expires, l.starving, l.wanted, l.state, f.fence, now()
from bandog_lease l join bandog_fence f on f.name = l.name
where l.owner is not null or l.state is not null order by l.name
