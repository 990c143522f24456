-- Records that the customer of an order was notified.
-- Parameters: ?1 the order's number, ?2 the replica.
-- Result: one inserted row.
insert into notified (order_id, replica) values (?1, ?2)
