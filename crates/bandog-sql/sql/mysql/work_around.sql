-- Reads what a take must know beside the ready elements.
-- $1 maximum number of elements, $2 where the count of taken elements stops
-- Result: when the next delayed element is due, when the next lease ends, whether more elements than the maximum are ready,
-- the number of elements that are taken, whether there are signals.
select
    (select e.at from bandog_work e force index (in_order) where e.queue = @bandog_queue and e.phase = 1 and e.line = 0
        and e.at > @bandog_now order by e.at limit 1),
    (select e.at from bandog_work e force index (in_order) where e.queue = @bandog_queue and e.phase = 3 and e.line = 0
        and e.at > @bandog_now order by e.at limit 1),
    (select count(*) from (select 1 from bandog_work e force index (in_order) where e.queue = @bandog_queue and e.phase = 0
        order by e.line, e.at, e.id limit $1, 1) more) > 0,
    (select count(*) from (select 1 from bandog_work e force index (in_order) where e.queue = @bandog_queue and e.phase = 3
        limit $2) taken),
    exists (select 1 from bandog_work_kept k where k.queue = @bandog_queue and k.kind = 4)
