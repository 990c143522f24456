-- Reads locks, also those of which only ShedLock's table has a row.
-- $1 names; null for all locks that are held
-- Result: as for `shedlock_lock`, sorted by name.
select s.name::text, '!' || s.locked_by,
    least(greatest(s.lock_until::timestamptz, 'epoch'), clock_timestamp() + interval '365 days'),
    coalesce(l.starving, false), coalesce(l.wanted, false), null::text, coalesce(f.fence, 0), clock_timestamp()
from $table s left join bandog_lease l on l.name = s.name collate "C" left join bandog_fence f on f.name = s.name collate "C"
where case when $1::text[] is null then s.lock_until::timestamptz > clock_timestamp() else s.name = any ($1::text[]) end
order by 1
