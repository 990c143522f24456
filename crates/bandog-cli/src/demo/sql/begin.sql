-- Records the start of a sweep.
-- Parameters: ?1 the replica, ?2 the tick, in ms of the Unix epoch, ?3 the run's attempt, ?4 the run's fence. The last
-- two are null if the replica's own timer started the sweep.
-- Result: one inserted row.
insert into sweep (replica, tick, attempt, fence, state) values (?1, ?2, ?3, ?4, 'sweeping')
