-- Writes down that a replica skipped a tick.
-- Parameters: ?1 the replica.
-- Result: one inserted row.
insert into sweep (replica, state) values (?1, 'skipped')
