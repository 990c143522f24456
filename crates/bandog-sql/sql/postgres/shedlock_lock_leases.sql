-- Reads locks and locks their rows, in the order of their names, until the end of the transaction. The rows of their
-- fences stay free. Rows that another transaction has locked are skipped.
-- $1 names, sorted
-- Result: as for `shedlock_lock`.
select l.name, '!' || s.locked_by,
    least(greatest(s.lock_until $read_until, 'epoch'), clock_timestamp() + interval '365 days'),
    l.starving, l.wanted, null::text, coalesce(f.fence, 0), clock_timestamp()
from bandog_lease l join $table s on s.name = l.name collate "default" left join bandog_fence f on f.name = l.name
where l.name = any ($1::text[]) order by l.name for update of l, s skip locked
