-- Records that the stock of an order was returned.
-- Parameters: ?1 the order's number, ?2 the replica, ?3 the fence, or null on a timer of its own.
-- Result: one inserted row.
insert into restoration (order_id, replica, fence) values (?1, ?2, ?3)
