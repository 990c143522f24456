-- Writes lines of the history of records. Each line replaces the line of its slot.
-- $1 names of records, $2 slots, $3 values; no slot of a record is there twice
-- Result: none.
insert into bandog_line (name, slot, value)
select name, slot, value from unnest($1::text[], $2::text[], $3::bytea[]) as given (name, slot, value)
on conflict (name, slot) do update set value = excluded.value
