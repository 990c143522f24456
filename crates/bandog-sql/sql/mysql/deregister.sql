-- Removes the row of a client.
-- $1 id
-- Result: none.
delete from bandog_client where id = $1
