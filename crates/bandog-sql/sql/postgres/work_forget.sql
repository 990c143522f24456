-- Removes what a queue was to keep until now or earlier.
-- $1 the queue
-- $2 a time before which no such row is expected
-- $3 maximum number of rows
-- Result: the time, and the number of removed rows.
with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
), removed as (
    delete from bandog_work_kept where ctid = any(array(
        select ctid from bandog_work_kept
        where queue::bigint = (select number from bandog_work_queues where name = $1::text)
            and until >= $2::bigint and until <= (select now from clock)
        order by until limit $3::bigint for update skip locked
    )) returning 1
)
select now, (select count(*) from removed) from clock
