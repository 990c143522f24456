-- Changes the waiters' mark (`wanted`) from 2 to 1, after a starving client has stopped waiting. Other waiters may
-- still need a notification.
-- ?1 name
-- Result: none.
update lease set wanted = 1 where name = ?1 and wanted = 2;
