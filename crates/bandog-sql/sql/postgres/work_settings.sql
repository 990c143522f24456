-- Replaces the settings of a queue.
-- $1 the queue
-- $2 whether it is paused, $3 whether only this is changed
-- $4 the concurrency, $5 the deliveries and $6 the period in µs of the rate
-- $7 the channel of the queue
-- Result: rows without a meaning.
with changed as (
    update bandog_work_queue set is_paused = $2::bool, concurrency = case when $3::bool then concurrency else $4::bigint end,
        deliveries = case when $3::bool then deliveries else $5::bigint end,
        period = case when $3::bool then period else $6::bigint end
    where name = $1::text returning 1
)
select pg_notify($7::text, '')::text where exists (select from changed)
