-- Reads elements, and the results of those that have ended.
-- $1 the queue
-- $2 ids, hexadecimal
-- Result: of each the id, phase (5: it has ended), rank, time, attempt, fence, taker, whether it is cancelled, its key of
-- order, payload (5: the result), error, progress, age, and the time left.
set @bandog_queue = (select number from bandog_work_queue where name = $1);
select straight_join lower(hex(e.id)), e.phase, 9 - e.priority, e.at, e.attempt, e.fence, e.taker, e.is_cancelled, e.order_key,
    b.payload, b.error, b.progress,
    timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) - e.pushed,
    e.at - timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
from ($rows(2 id)) given
join bandog_work e force index (primary) on e.queue = @bandog_queue and e.id = unhex(given.id)
join bandog_work_body b force index (primary) on b.queue = e.queue and b.id = e.id
union all
select k.name, 5, 9, 0, 0, 0, null, 0, null, k.content, null, null, 0, 0
from ($rows(2 id)) given
join bandog_work_kept k force index (primary) on k.queue = @bandog_queue and k.kind = 2 and k.name = given.id
where k.until > timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
    and not exists (select 1 from bandog_work e where e.queue = @bandog_queue and e.id = unhex(given.id))
