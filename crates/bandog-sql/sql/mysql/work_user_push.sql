-- Writes the elements of a push. An element with a key of order is blocked, and leaves a signal (`work_user_signal`).
-- $1 the queue, $2 the first element of the push
-- $3 ids, $4 priorities, $5 delays, $6 times or zeros, $7 keep_result, $8 before_id, $9 waits_for, $10 keys of order, $11 ids
-- of `once` or nulls
-- Result: none.
insert into $schema.bandog_work (queue, id, phase, line, priority, at, place, pushed, attempt, fence, keep_result, before_id,
    waits_for, is_cancelled, order_key, order_at)
select n.queue, n.id, n.phase, if(n.phase = 0, 9 - n.priority, 0), n.priority, if(n.phase = 2, n.now, n.due), n.due, n.now, 0, 0,
    n.keep_result, n.before_id, n.waits_for, 0, n.order_key, if(n.order_key is not null and n.waits_for = 0, n.now, null)
from (
    select d.*, case when d.waits_for > 0 or d.order_key is not null then 2 when d.due > d.now then 1 else 0 end as phase
    from (
        select r.queue, g.*, clock.now, greatest(clock.now, if(g.due_at > 0, g.due_at, clock.now + g.delay)) as due
        from ($rows(3 id, 4 priority, 5 delay, 6 due_at, 7 keep_result, 8 before_id, 9 waits_for, 10 order_key, 11 once)) g
        join (select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as now) clock
        join $schema.bandog_work_queue q on q.name = $1
        join $schema.bandog_work_kept r on r.queue = q.number and r.kind = 1 and r.name = lower(hex($2)) and r.element is null
        left join $schema.bandog_work_kept o on o.queue = q.number and o.kind = 0 and o.name = g.once
        where g.once is null or o.element = g.id
    ) d
) n
