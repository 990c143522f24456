-- Removes rows that are kept, by their names.
-- $1 kinds, $2 names
-- Result: none.
delete k from ($rows(1 kind, 2 name)) dropped
straight_join bandog_work_kept k force index (primary) on k.queue = @bandog_queue
    and k.kind = dropped.kind and k.name = dropped.name
