-- Records that the stock of an order was returned. Parameters: ?1 the order's number, ?2 the replica, ?3 the run's
-- fence, or null if the replica's own timer started the sweep. Result: one inserted row.
insert into restoration (order_id, replica, fence) values (?1, ?2, ?3)
