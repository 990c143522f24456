-- Deletes the expired rows of clients. Rows that another transaction has locked are left for later.
-- Parameters: none.
-- Result: none.
delete from bandog_client where id in (
    select id from bandog_client where expires <= clock_timestamp() for update skip locked
)
