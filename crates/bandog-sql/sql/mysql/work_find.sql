-- Reads elements, and the results of those that have ended.
-- $1 the queue
-- $2 ids, hexadecimal
-- $3 maximum number of bytes of each payload, $4 of all of them, and of all results, beside the first: further ones are empty
-- Result: of each the id, phase (5: it has ended), rank, time, attempt, fence, taker, whether it is cancelled, its key of
-- order, payload (5: the result), error, progress, age, the time left, the length of the payload, and whether further elements
-- follow.
set @bandog_queue = (select number from bandog_work_queues where name = $1);
select straight_join lower(hex(e.id)), e.phase, 9 - e.priority, e.at, e.attempt, e.fence, e.taker, e.is_cancelled, e.order_key,
    case when row_number() over (order by e.id) = 1
        or sum(least(length(b.payload), $3)) over (order by e.id) <= $4 then left(b.payload, $3) else '' end,
    b.error, b.progress,
    timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) - e.pushed,
    e.at - timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)), length(b.payload), 0
from ($rows(2 id)) given
join bandog_work e force index (primary) on e.queue = @bandog_queue and e.id = unhex(given.id)
join bandog_work_body b force index (primary) on b.queue = e.queue and b.id = e.id
union all
select k.name, 5, 9, 0, 0, 0, null, 0, null,
    case when row_number() over (order by k.name) = 1
        or sum(length(k.content)) over (order by k.name) <= $4 then k.content else '' end,
    null, null, 0, 0, 0, 0
from ($rows(2 id)) given
join bandog_work_kept k force index (primary) on k.queue = @bandog_queue and k.kind = 2 and k.name = given.id
where k.until > timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
    and not exists (select 1 from bandog_work e where e.queue = @bandog_queue and e.id = unhex(given.id))
