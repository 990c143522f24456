-- Sets the waiters' mark, so that the process that frees the name notifies the waiters.
-- ?1 name
-- ?2 wanted: see schema.sql
-- Result: none.
insert into lease (name, wanted) values (?1, ?2) on conflict (name) do update set wanted = max(wanted, ?2);
