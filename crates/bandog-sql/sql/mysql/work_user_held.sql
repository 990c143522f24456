-- Checks in a transaction of the user that a delivery is held, and locks its element.
-- $1 the number of the queue, $2 the element, $3 the fence, $4 the id of the store
-- Result: 1. If the delivery is not held, the statement fails, and its error has the reason.
select cast(case
    when coalesce((select m.value from $schema.bandog_meta m where m.name = 'id'), '') <> $4
        then get_lock(rpad('bandog: this is not the database of the lock', 200, ' '), 0)
    /*M! when @@autocommit = 1 and @@in_transaction = 0
        then get_lock(rpad('bandog: no transaction is open', 200, ' '), 0) */
    when held.fence is null or held.fence <> $3
        then get_lock(rpad('bandog: this delivery does not have the element', 200, ' '), 0)
    else 1
end as signed) as fence
from (select 1 as one) single
left join (
    select e.fence from $schema.bandog_work e force index (primary)
    where e.queue = $1 and e.id = $2 for update
) held on true
