-- Writes down that a replica begins a sweep.
-- Parameters: ?1 the replica.
-- Result: one inserted row.
insert into sweep (replica, state) values (?1, 'sweeping')
