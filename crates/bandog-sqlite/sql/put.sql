-- Creates or replaces a record.
-- ?1 name
-- ?2 version
-- ?3 value
-- Result: none.
insert into record (name, version, value) values (?1, ?2, ?3)
on conflict (name) do update set version = excluded.version, value = excluded.value;
