-- Reads locks and locks their rows, in the order of their names, until the end of the transaction. The rows of their
-- fences stay free.
-- $1 names, sorted
-- Result: as for `shedlock_lock`.
select l.name, '!' || s.locked_by,
    least(greatest(s.lock_until::timestamptz, 'epoch'), clock_timestamp() + interval '365 days'),
    l.starving, l.wanted, null::text, f.fence, clock_timestamp()
from bandog_lease l join bandog_fence f on f.name = l.name join $table s on s.name = l.name collate "default"
where l.name = any ($1::text[]) order by l.name for update of l, s
