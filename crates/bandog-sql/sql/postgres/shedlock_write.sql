-- Writes locks whose rows are locked. The hold of a foreign holder is not written: `owner` is then the id that stands for
-- it. A release moves the time to the present, and never deletes a row. A renewal keeps `locked_at`.
-- $1 names
-- $2 owners
-- $3 times at which the holds expire
-- $4 whether clients starve
-- $5 whether subscribers wait
-- $6 states, which are null
-- $7 last fences; null if the fence has not changed
-- Result: none.
with given as materialized (
    select * from unnest($1::text[], $2::text[], $3::timestamptz[], $4::boolean[], $5::boolean[], $6::text[], $7::bigint[])
        as given (name, owner, expires, starving, wanted, state, fence)
), fenced as (
    update bandog_fence f set fence = g.fence from given g where f.name = g.name and g.fence is not null
), marked as (
    update bandog_lease l set starving = g.starving, wanted = g.wanted from given g where l.name = g.name
)
update $table s set
    lock_until = (case when g.owner is null then least(s.lock_until $read_until, clock_timestamp())
        else g.expires + $slack * interval '1 microsecond' end) $write_until,
    locked_at = (case when g.owner is null or g.owner = s.locked_by and s.lock_until $read_until > clock_timestamp()
        then s.locked_at $read_at else clock_timestamp() end) $write_at,
    locked_by = coalesce(g.owner, s.locked_by)
from given g
where s.name = g.name collate "default" and g.owner is distinct from '$foreign'
    and (g.owner is not null or s.lock_until $read_until > clock_timestamp())
