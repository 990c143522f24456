-- Reads elements of the queue whose delay or lease has ended, at most 100, and locks those that no transaction has locked.
-- $1 the phase
-- $2 maximum length of a payload that is read
-- Result: of each the id, phase, priority, at, place, pushed, attempt, fence, the two numbers of the take, keep_result, the
-- element that waits, waits_for, whether it is cancelled, its key of order; then the length of the payload, the payload or null,
-- and the error.
select straight_join lower(hex(e.id)), e.phase, e.priority, e.at, e.place, e.pushed, e.attempt, e.fence, e.taker,
    e.take_number, e.keep_result, lower(hex(e.before_id)), e.waits_for, e.is_cancelled, e.order_key, length(b.payload),
    case when length(b.payload) <= $2 then b.payload end, b.error
from bandog_work e force index (in_order) join bandog_work_body b force index (primary) on b.queue = e.queue and b.id = e.id
where e.queue = @bandog_queue and e.phase = $1 and e.line = 0 and e.at <= @bandog_now
order by e.at, e.id limit 100 for update skip locked
