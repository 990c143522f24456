-- Writes down a new order.
-- Parameters: ?1 its number, ?2 the item, ?3 how many units, ?4 when it falls overdue, in ms of the Unix epoch.
-- Result: one inserted row.
insert into orders (id, item, units, overdue) values (?1, ?2, ?3, ?4)
