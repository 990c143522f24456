-- Reads the elements that were pushed once.
-- $1 the queue
-- $2 the ids of `once`
-- Result: the id of `once`, and the element.
with q as materialized (
    select number from bandog_work_queues where name = $1::text
)
select k.name, k.element::text from unnest($2::text[]) g (name) cross join lateral (
    select name, element from bandog_work_kept where queue = (select number from q) and kind = 0 and name = g.name limit 1
) k
