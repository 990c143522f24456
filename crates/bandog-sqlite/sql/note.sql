-- Writes a line of a record's history, instead of what stands in its slot.
-- ?1 name
-- ?2 slot
-- ?3 value
-- Result: none.
insert into line (name, slot, value) values (?1, ?2, ?3) on conflict (name, slot) do update set value = excluded.value;
