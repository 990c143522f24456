-- Remembers a push, as the first statement of a push in a transaction of the user. While its row has no element, the next
-- statements push. None of them reads a table and writes at once: at the level REPEATABLE READ, the server would lock what it
-- reads, and the transactions of others would wait. `$schema` is replaced by the database of the tables.
-- $1 the number of the queue, $2 the first element, $3 the id of the store
-- Result: none. In another database, the statement fails, and its error has the reason.
insert into $schema.bandog_work_kept (queue, kind, name, until, element)
values ($1, 1, lower(hex($2)), timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) + 300000000
    + case when coalesce((select m.value from $schema.bandog_meta m where m.name = 'id'), '') <> $3
        then get_lock(rpad('bandog: this is not the database of the lock', 200, ' '), 0) else 0 end, null)
on duplicate key update until = until
