-- Takes a client out of the registry.
-- ?1 id
-- Result: none.
delete from client where id = ?1;
