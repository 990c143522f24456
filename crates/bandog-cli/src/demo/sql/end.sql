-- Records the end of a sweep.
-- Parameters: ?1 the sweep's id.
-- Result: one changed row.
update sweep set state = 'swept' where id = ?1
