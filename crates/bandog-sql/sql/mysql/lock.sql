-- Reads locks and locks their rows, in the order of their names, until the end of the transaction. Rows that another
-- transaction has locked are skipped. The hint is needed, because a scan of a small table would lock other rows, too.
-- $1 names, sorted
-- Result: rows of name, owner, expires, starving, wanted, state, fence, the time after the rows were locked.
select l.name, l.owner, timestampdiff(microsecond, '1970-01-01', l.expires), l.starving, l.wanted, l.state, f.fence
from bandog_lease l force index (primary) straight_join bandog_fence f force index (primary) on f.name = l.name
where l.name in ($1) order by l.name for update skip locked;
select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
