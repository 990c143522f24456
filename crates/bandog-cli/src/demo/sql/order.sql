-- Records a new order.
-- Parameters: ?1 its number, ?2 the item, ?3 the number of units, ?4 the time when it becomes overdue, in ms of the Unix epoch.
-- Result: one inserted row.
insert into orders (id, item, units, overdue) values (?1, ?2, ?3, ?4)
