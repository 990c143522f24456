-- Reads elements of a phase after a position, in their order.
-- $1 the queue
-- $2 the phase, which is not that of ready ones
-- $3, $4 the time and the id of the position
-- $5 maximum number
-- $6 maximum number of bytes of each payload, $7 of all of them beside the first
-- Result: of each the id, phase (5: it has ended), rank, time, attempt, fence, taker, whether it is cancelled, its key of
-- order, payload (5: the result), error, progress, age, the time left, the length of the payload, and whether further elements
-- follow.
set @bandog_queue = (select number from bandog_work_queues where name = $1);
select id, phase, `rank`, at, attempt, fence, taker, is_cancelled, order_key, payload, error, progress, age, time_left, length,
    number = $5 or exceeds
from (
    select sized.*, max(place > 1 and total > $7) over () as exceeds, max(place) over () as number
    from (
        select straight_join lower(hex(e.id)) as id, e.phase, 9 - e.priority as `rank`, e.at, e.attempt, e.fence, e.taker,
            e.is_cancelled, e.order_key, left(b.payload, $6) as payload, b.error, b.progress,
            timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) - e.pushed as age,
            e.at - timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as time_left, length(b.payload) as length,
            row_number() over (order by e.at, e.id) as place,
            sum(least(length(b.payload), $6)) over (order by e.at, e.id) as total
        from bandog_work e force index (in_order)
        join bandog_work_body b force index (primary) on b.queue = e.queue and b.id = e.id
        where e.queue = @bandog_queue and e.phase = $2 and e.line = 0 and e.at >= $3 and (e.at > $3 or e.id > unhex($4))
        order by e.at, e.id limit $5
    ) sized
) all_rows
where place = 1 or total <= $7 order by place
