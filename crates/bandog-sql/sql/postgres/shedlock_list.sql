-- Reads all locks that are held, also those of which only ShedLock's table has a row.
-- Parameters: none.
-- Result: rows of name, holder, time of expiry, starving, wanted, state, fence, the time at which the statement began;
-- sorted by name.
select s.name::text, '!' || s.locked_by,
    least(greatest(s.lock_until $read_until, 'epoch'), clock_timestamp() + interval '365 days'),
    coalesce(l.starving, false), coalesce(l.wanted, false), null::text, coalesce(f.fence, 0), now()
from $table s left join bandog_lease l on l.name = s.name collate "C" left join bandog_fence f on f.name = s.name collate "C"
where s.lock_until $read_until > now() order by 1
