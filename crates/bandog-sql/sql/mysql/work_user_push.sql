-- Writes the elements of a push. An element with a key of order is blocked, and leaves a signal (`work_user_signal`).
-- $1 the numbers of the queue, $2 ids, $3 priorities, $4 delays, $5 times or zeros, $6 keep_result, $7 before_id, $8 waits_for,
-- $9 keys of order, $10 whether the element has an id of `once`
-- Result: none.
insert into $schema.bandog_work (queue, id, phase, line, priority, at, place, pushed, attempt, fence, keep_result, before_id,
    waits_for, is_cancelled, order_key, order_at)
select n.queue, n.id, n.phase, if(n.phase = 0, 9 - n.priority, 0), n.priority, if(n.phase = 2, n.now, n.due), n.due, n.now,
    0, 0, n.keep_result, n.before_id, n.waits_for, 0, n.order_key,
    if(n.order_key is not null and n.waits_for = 0, n.now, null)
from (
    select d.*, case when d.waits_for > 0 or d.order_key is not null then 2 when d.due > d.now then 1 else 0 end as phase
    from (
        select g.*, clock.now, greatest(clock.now, if(g.due_at > 0, g.due_at, clock.now + g.delay)) as due
        from ($rows(1 queue, 2 id, 3 priority, 4 delay, 5 due_at, 6 keep_result, 7 before_id, 8 waits_for, 9 order_key, 10 once)) g
        join (select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as now) clock
        where @bandog_new and (not g.once or instr(@bandog_mine, lower(hex(g.id))) > 0)
    ) d
) n
