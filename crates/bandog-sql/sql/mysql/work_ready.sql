-- Reads ready elements after a position, in their order.
-- $1 the queue
-- $2, $3, $4 the rank, the time and the id of the position
-- $5 maximum number
-- Result: of each the id, phase (5: it has ended), rank, time, attempt, fence, taker, whether it is cancelled, its key of
-- order, payload (5: the result), error, progress, age, and the time left.
set @bandog_queue = (select number from bandog_work_queue where name = $1);
select straight_join lower(hex(e.id)), e.phase, 9 - e.priority, e.at, e.attempt, e.fence, e.taker, e.is_cancelled, e.order_key,
    b.payload, b.error, b.progress,
    timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) - e.pushed,
    e.at - timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
from bandog_work e force index (in_order)
join bandog_work_body b force index (primary) on b.queue = e.queue and b.id = e.id
where e.queue = @bandog_queue and e.phase = 0 and e.line >= $2
    and (e.line > $2 or e.at > $3 or e.at = $3 and e.id > unhex($4))
order by e.line, e.at, e.id limit $5
