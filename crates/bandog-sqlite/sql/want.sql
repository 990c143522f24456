-- Leaves the mark of somebody who waits.
-- ?1 name
-- ?2 wanted: see the table
-- Result: none.
insert into lease (name, wanted) values (?1, ?2) on conflict (name) do update set wanted = max(wanted, ?2);
