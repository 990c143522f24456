-- Reads all locks that are not free. It reads the whole table.
-- Parameters: none.
-- Result: as `show`.
select l.name, l.owner, l.expires, l.starving, l.wanted, l.state, coalesce((select f.fence from bandog_fence f where f.name = l.name), 0), now()
from bandog_lease l
where l.owner is not null or l.state is not null order by l.name
