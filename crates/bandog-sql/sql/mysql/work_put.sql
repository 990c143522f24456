-- Writes elements.
-- $1 ids, $2 phases, $3 lines, $4 priorities, $5 at, $6 place, $7 pushed, $8 attempts, $9 fences, $10 and $11 the takes,
-- $12 keep_result, $13 before_id, $14 waits_for, $15 is_cancelled, $16 keys of order, $17 order_at, $18 the number of the queue
-- Result: none.
insert into bandog_work (id, phase, line, priority, at, place, pushed, attempt, fence, taker, take_number, keep_result,
    before_id, waits_for, is_cancelled, order_key, order_at, queue)
values $values(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18)
on duplicate key update phase = values(phase), line = values(line), at = values(at), place = values(place),
    attempt = values(attempt), fence = values(fence), taker = values(taker), take_number = values(take_number),
    waits_for = values(waits_for), is_cancelled = values(is_cancelled), order_at = values(order_at)
