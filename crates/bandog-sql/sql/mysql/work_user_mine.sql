-- Remembers in the session which elements have got their ids of `once`.
-- $1 the number of the queue, $2 the ids of `once`
-- Result: none.
set @bandog_mine = (select cast(json_arrayagg(lower(hex(k.element))) as char) from $schema.bandog_work_kept k
    where k.queue = $1 and k.kind = 0 and k.name in ($2))
