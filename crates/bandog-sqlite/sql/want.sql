-- Leaves the mark of somebody who waits for the bell.
-- ?1 name
-- Result: none.
insert into lease (name, wanted) values (?1, 1) on conflict (name) do update set wanted = 1;
