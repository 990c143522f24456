-- Reads locks, and keeps their rows from changing until the end of the transaction.
-- $1 names, sorted
-- Result: as for `shedlock_lock`, without the time.
select l.name, concat('!', s.locked_by), greatest(0, timestampdiff(microsecond, '1970-01-01', s.lock_until)), l.starving, l.wanted,
    if(cast(convert(s.name using utf8mb4) as binary) = l.name, null, concat('spelled ', convert(s.name using utf8mb4))),
    coalesce((select f.fence from bandog_fence f where f.name = l.name), 0)
from bandog_lease l force index (primary) straight_join $table s force index (primary) on s.name = $name
where l.name in ($1) order by l.name lock in share mode
