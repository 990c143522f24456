-- unstarve
-- Removes the mark of a starving client that has given up. Other waiters may still need a notification.
-- ?1 name
-- Result: none.
update lease set wanted = 1 where name = ?1 and wanted = 2;
