-- Reads the first elements of a key of order: the one that is ready, delayed or taken, and then blocked ones.
-- $1 the key
-- $2 maximum number
-- Result: of each the id, phase, priority, at, place, pushed, attempt, fence, the two numbers of the take, keep_result, the
-- element that waits, waits_for, whether it is cancelled, its key of order; then the length of the payload, null, and the
-- error: a take may deliver the one that becomes ready.
select straight_join lower(hex(e.id)), e.phase, e.priority, e.at, e.place, e.pushed, e.attempt, e.fence, e.taker,
    e.take_number, e.keep_result, lower(hex(e.before_id)), e.waits_for, e.is_cancelled, e.order_key,
    length(b.payload), null, b.error
from bandog_work e force index (of_key)
join bandog_work_body b force index (primary) on b.queue = e.queue and b.id = e.id
where e.queue = @bandog_queue and e.order_key = $1 and e.order_at >= -1 order by e.order_at, e.id limit $2
