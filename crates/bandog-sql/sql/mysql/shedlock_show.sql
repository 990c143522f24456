-- Reads locks, also those of which only ShedLock's table has a row. The names come first, so that its primary key is used.
-- $1 names
-- Result: rows of name, holder, time of expiry, starving, wanted, state, fence, the time at which the statement began;
-- sorted by name.
select convert(s.name using utf8mb4), concat('!', s.locked_by),
    greatest(0, timestampdiff(microsecond, '1970-01-01', s.lock_until)), coalesce(l.starving, 0), coalesce(l.wanted, 0), null,
    coalesce((select f.fence from bandog_fence f where f.name = g.name), 0),
    timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
from ($rows(1 name)) g straight_join $table s force index (primary) on s.name = $given
    left join bandog_lease l on l.name = g.name
where cast(convert(s.name using utf8mb4) as binary) = g.name order by 1
