-- Remembers in the session whether a push is new. A row that is not visible is that of another transaction.
-- $1 the number of the queue, $2 the first element
-- Result: none.
set @bandog_new = (select k.element is null from $schema.bandog_work_kept k
    where k.queue = $1 and k.kind = 1 and k.name = lower(hex($2)))
