-- Locks the row of a lock until the end of the transaction. Fails if another session has locked it.
-- $1 name
-- Result: the name, as the table has it. None if there is no row.
select convert($column using utf8mb4) from $table where $column = $asked for update nowait
