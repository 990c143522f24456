-- Records the start of a sweep.
-- Parameters: ?1 the replica, ?2 the tick, in ms of the Unix epoch, ?3 the run's attempt and ?4 its fence, or null on a
-- timer of its own.
-- Result: one inserted row.
insert into sweep (replica, tick, attempt, fence, state) values (?1, ?2, ?3, ?4, 'sweeping')
