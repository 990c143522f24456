-- Reads locks and locks their rows, in the order of their names, until the end of the transaction. Rows that another
-- transaction has locked are skipped. The sign before the holder says that it can be a foreign one. The state is the name
-- in ShedLock's table, if it is spelled in another way: some collations do not distinguish the two.
-- $1 names, sorted
-- Result: rows of name, holder, time of expiry, starving, wanted, state, fence, the time after the rows were locked.
select l.name, concat('!', s.locked_by), greatest(0, timestampdiff(microsecond, '1970-01-01', s.lock_until)), l.starving, l.wanted,
    if(cast(convert(s.name using utf8mb4) as binary) = l.name, null, concat('spelled ', convert(s.name using utf8mb4))),
    f.fence
from bandog_lease l force index (primary) straight_join bandog_fence f force index (primary) on f.name = l.name
    straight_join $table s force index (primary) on s.name = $name
where l.name in ($1) order by l.name for update skip locked;
select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
