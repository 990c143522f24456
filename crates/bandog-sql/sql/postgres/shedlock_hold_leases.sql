-- Reads locks, and keeps their rows from changing until the end of the transaction.
-- $1 names, sorted
-- Result: as for `shedlock_lock`, without the time.
select l.name, '!' || s.locked_by,
    least(greatest(s.lock_until $read_until, 'epoch'), clock_timestamp() + interval '365 days'),
    l.starving, l.wanted, null::text, coalesce(f.fence, 0)
from bandog_lease l join $table s on s.name = l.name collate "default" left join bandog_fence f on f.name = l.name
where l.name = any ($1::text[]) order by l.name for share of l, s
