-- The answer of `work_push`: whether the queue exists, whether the push is new, and for each element its number from 1 on
-- and the id of the element that was pushed with its id of `once`.
select exists (select from q), exists (select from remembered), g.ord, coalesce(c.element, g.id)::text,
    (select count(*) from notified)
from given g left join claimed c on c.name = g.once
