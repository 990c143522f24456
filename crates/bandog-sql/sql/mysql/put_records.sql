-- Replaces records whose rows are locked.
-- $1 names, $2 versions, $3 values
-- Result: none.
insert into bandog_record (name, version, value)
values $values(1, 2, 3)
on duplicate key update version = values(version), value = values(value)
