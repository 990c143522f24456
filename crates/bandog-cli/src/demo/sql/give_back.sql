-- The third step of a sweep: returns the units of a closed order.
-- Parameters: ?1 the item, ?2 the number of units.
-- Result: one changed row.
update stock set units = units + ?2 where item = ?1
