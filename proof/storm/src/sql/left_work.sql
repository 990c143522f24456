-- The data that remains in SQLite although the work queues are empty, and no limit of a queue is set.
-- Parameters: none.
-- Result: one text for each kind of unexpected rows.
select count(*) || ' elements' from work having count(*) > 0
union all
select count(*) || ' texts of elements' from work_body having count(*) > 0
union all
select 'settings of ' || name from work_queue where paused or concurrency is not null or rate is not null;
