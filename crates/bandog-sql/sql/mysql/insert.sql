-- Creates the rows of free locks, if they do not exist. Rows that exist are not locked, because another transaction may
-- have locked them.
-- $1 names, sorted
-- Result: none.
insert ignore into bandog_fence (name, fence)
select g.name, 0 from ($rows(1 name)) g where not exists (select 1 from bandog_fence f where f.name = g.name) order by g.name;
insert ignore into bandog_lease (name)
select g.name from ($rows(1 name)) g where not exists (select 1 from bandog_lease l where l.name = g.name) order by g.name
