-- Frees a name and removes the waiters' mark (`wanted`), because the process that frees the name notifies the waiters.
-- ?1 name
-- Result: none.
update lease set owner = null, wanted = 0 where name = ?1;
