-- Creates the rows of free locks, if they do not exist. A row of ShedLock's table is free if its time has passed. Rows that
-- exist are not locked, because another transaction may have locked them.
-- $1 names, sorted
-- Result: none.
insert ignore into bandog_fence (name, fence)
select g.name, 0 from ($rows(1 name)) g where not exists (select 1 from bandog_fence f where f.name = g.name) order by g.name;
insert ignore into bandog_lease (name)
select g.name from ($rows(1 name)) g where not exists (select 1 from bandog_lease l where l.name = g.name) order by g.name;
insert ignore into $table (name, lock_until, locked_at, locked_by)
select $given, '2000-01-01', '2000-01-01', 'bandog' from ($rows(1 name)) g
where not exists (select 1 from $table s where s.name = $given) order by g.name
