-- Writes locks whose rows are locked. The hold of a foreign holder is not written: `owner` is then the id that stands for
-- it. A release moves the time to the present, and never deletes a row. A renewal keeps `locked_at`. The columns are
-- written from left to right, so the holder comes last.
-- $1 names
-- $2 owners
-- $3 times at which the holds expire
-- $4 whether clients starve
-- $5 whether subscribers wait
-- $6 states, which are null
-- $7 last fences; null if the fence has not changed
-- Result: none.
insert into bandog_fence (name, fence) $known(1, 7)
on duplicate key update fence = values(fence);
insert into bandog_lease (name, starving, wanted) values $values(1, 4, 5)
on duplicate key update starving = values(starving), wanted = values(wanted);
insert into $table (name, lock_until, locked_at, locked_by)
select $given, coalesce(g.expires + interval $slack microsecond, utc_timestamp(3)), utc_timestamp(3), coalesce(g.owner, '')
from ($rows(1 name, 2 owner, 3 expires)) g where g.owner is null or g.owner <> '$foreign'
on duplicate key update
    locked_at = if(values(locked_by) = '' or values(locked_by) = locked_by and lock_until > utc_timestamp(3),
        locked_at, values(locked_at)),
    lock_until = if(values(locked_by) = '', least(lock_until, utc_timestamp(3)), values(lock_until)),
    locked_by = if(values(locked_by) = '', locked_by, values(locked_by))
