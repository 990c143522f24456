-- Reads locks and locks their rows, in the order of their names, until the end of the transaction. Rows that another
-- transaction has locked are skipped. The sign before the holder says that it can be a foreign one.
-- $1 names, sorted
-- Result: rows of name, holder, time of expiry, starving, wanted, state, fence, the present time.
select l.name, '!' || s.locked_by,
    least(greatest(s.lock_until $read_until, 'epoch'), clock_timestamp() + interval '365 days'),
    l.starving, l.wanted, null::text, f.fence, clock_timestamp()
from bandog_lease l join bandog_fence f on f.name = l.name join $table s on s.name = l.name collate "default"
where l.name = any ($1::text[]) order by l.name for update of l, f, s skip locked
