-- Writes locks whose rows are locked.
-- $1 names
-- $2 owners
-- $3 times at which the holds expire
-- $4 whether clients starve
-- $5 whether subscribers wait
-- $6 states
-- $7 last fences; null if the fence has not changed
-- Result: none.
with given as materialized (
    select * from unnest($1::text[], $2::text[], $3::timestamptz[], $4::boolean[], $5::boolean[], $6::text[], $7::bigint[])
        as given (name, owner, expires, starving, wanted, state, fence)
), fenced as (
    update bandog_fence f set fence = g.fence from given g where f.name = any ($1::text[]) and f.name = g.name and g.fence is not null
)
update bandog_lease l
set owner = g.owner, expires = g.expires, starving = g.starving, wanted = g.wanted, state = g.state
from given g where l.name = any ($1::text[]) and l.name = g.name
