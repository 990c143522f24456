-- Locks the row of a lock until the end of the transaction. Fails if another session has locked it.
-- $1 name
-- Result: the name, as the table has it. None if there is no row.
select $column::text from $table where $column = $1 for update nowait
