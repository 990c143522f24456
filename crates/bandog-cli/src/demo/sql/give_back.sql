-- The third step of a sweep: puts the units of a closed order back on the shelf.
-- Parameters: ?1 the item, ?2 how many units.
-- Result: one changed row.
update stock set units = units + ?2 where item = ?1
