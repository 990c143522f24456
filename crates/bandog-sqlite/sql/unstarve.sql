-- unstarve
-- Takes the mark of a client that starves and has given up. Others may wait for the bell.
-- ?1 name
-- Result: none.
update lease set wanted = 1 where name = ?1 and wanted = 2;
