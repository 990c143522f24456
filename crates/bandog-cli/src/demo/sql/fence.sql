-- Lets a write pass if nobody with a greater fence was here before.
-- Parameters: ?1 the writer's fence.
-- Result: one changed row if it may pass, none if a later run was here.
update fence set greatest = ?1 where greatest <= ?1
