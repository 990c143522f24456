-- Reads all locks that are held, also those of which only ShedLock's table has a row.
-- Parameters: none.
-- Result: rows of name, holder, time of expiry, starving, wanted, state, fence, the time at which the statement began;
-- sorted by name.
select convert(s.name using utf8mb4), concat('!', s.locked_by),
    greatest(0, timestampdiff(microsecond, '1970-01-01', s.lock_until)), coalesce(l.starving, 0), coalesce(l.wanted, 0), null,
    coalesce((select f.fence from bandog_fence f where f.name = cast(convert(s.name using utf8mb4) as binary)), 0),
    timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
from $table s left join bandog_lease l on l.name = cast(convert(s.name using utf8mb4) as binary)
where s.lock_until > utc_timestamp(3) order by 1
