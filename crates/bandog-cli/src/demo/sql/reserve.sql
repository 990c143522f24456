-- Takes the units of a new order off the shelf.
-- Parameters: ?1 the item, ?2 how many units.
-- Result: one changed row.
update stock set units = units - ?2 where item = ?1
