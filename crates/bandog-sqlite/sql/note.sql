-- Writes a line of a record's history. It replaces an earlier line in the same slot.
-- ?1 name
-- ?2 slot
-- ?3 value
-- Result: none.
insert into line (name, slot, value) values (?1, ?2, ?3) on conflict (name, slot) do update set value = excluded.value;
