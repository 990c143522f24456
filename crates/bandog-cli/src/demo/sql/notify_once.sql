-- Records that the customer of an order was notified, unless this was done before.
-- Parameters: ?1 the order's number, ?2 the replica.
-- Result: one inserted row, or none.
insert into notified (order_id, replica) select ?1, ?2 where not exists (select 1 from notified where order_id = ?1)
