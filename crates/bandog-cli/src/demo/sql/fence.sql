-- Accepts a write if no writer with a greater fence wrote before.
-- Parameters: ?1 the writer's fence.
-- Result: one changed row if it is accepted, none if a later run has written.
update fence set greatest = ?1 where greatest <= ?1
