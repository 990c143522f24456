-- Deregisters a client.
-- ?1 id
-- Result: none.
delete from client where id = ?1;
