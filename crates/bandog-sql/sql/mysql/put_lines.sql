-- Writes lines of the history of records. Each line replaces the line of its slot.
-- $1 names of records, $2 slots, $3 values; no slot of a record is there twice
-- Result: none.
insert into bandog_line (name, slot, value)
values $values(1, 2, 3)
on duplicate key update value = values(value)
