-- Changes settings of a queue.
-- $1 the queue
-- $2 whether it is paused. Null: as before
-- $3 whether the concurrency is changed, $4 the concurrency
-- $5 whether the rate is changed, $6 the deliveries and $7 the period in µs of the rate
-- $8 the channel of the queue
-- Result: rows without a meaning.
with changed as (
    update bandog_work_queues set is_paused = coalesce($2::bool, is_paused),
        concurrency = case when $3::bool then $4::bigint else concurrency end,
        deliveries = case when $5::bool then $6::bigint else deliveries end,
        period = case when $5::bool then $7::bigint else period end
    where name = $1::text returning 1
)
select pg_notify($8::text, '')::text where exists (select from changed)
