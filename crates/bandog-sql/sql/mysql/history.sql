-- Reads the history of a record.
-- $1 name
-- Result: rows of slot, value; sorted by slot.
select slot, value from bandog_line where name = $1 order by slot
