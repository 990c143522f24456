-- Reads elements of the queue, and locks the rows that no transaction has locked.
-- $1 ids
-- Result: of each the id, phase, priority, at, place, pushed, attempt, fence, the two numbers of the take, keep_result, the
-- element that waits, waits_for, whether it is cancelled, its key of order.
select lower(hex(e.id)), e.phase, e.priority, e.at, e.place, e.pushed, e.attempt, e.fence, e.taker,
    e.take_number, e.keep_result, lower(hex(e.before_id)), e.waits_for, e.is_cancelled, e.order_key
from bandog_work e force index (primary) where e.queue = @bandog_queue and e.id in ($1) order by e.id for update skip locked
