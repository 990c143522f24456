-- The data that remains in PostgreSQL and MariaDB although the work queues are empty, and no limit of a queue is set.
-- Parameters: none.
-- Result: one text for each kind of unexpected rows.
select concat(count(*), ' elements') from bandog_work having count(*) > 0
union all
select concat(count(*), ' texts of elements') from bandog_work_body having count(*) > 0
union all
select concat('settings of ', name) from bandog_work_queues
where is_paused or concurrency is not null or deliveries is not null
