-- Adds an item.
-- Parameters: ?1 the item, ?2 the number of units in the shop.
-- Result: one inserted row.
insert into stock (item, units, owned) values (?1, ?2, ?2)
