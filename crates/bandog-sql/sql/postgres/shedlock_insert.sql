-- Creates the rows of free locks, if they do not exist. A row of ShedLock's table is free if its time has passed.
-- $1 names, sorted
-- Result: none.
with fences as (
    insert into bandog_fence (name, fence) select n, 0 from unnest($1::text[]) n order by n on conflict do nothing
), leases as (
    insert into bandog_lease (name) select n from unnest($1::text[]) n order by n on conflict do nothing
)
insert into $table (name, lock_until, locked_at, locked_by)
select n, (timestamptz '2000-01-01 00:00:00Z') $write_until, (timestamptz '2000-01-01 00:00:00Z') $write_at, 'bandog'
from unnest($1::text[]) n order by n on conflict do nothing
