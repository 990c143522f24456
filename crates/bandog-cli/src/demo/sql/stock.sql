-- Puts an item on the shelf.
-- Parameters: ?1 the item, ?2 how many units the shop owns.
-- Result: one inserted row.
insert into stock (item, units, owned) values (?1, ?2, ?2)
