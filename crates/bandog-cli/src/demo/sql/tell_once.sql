-- Records that the customer of an order was told, unless this was done before.
-- Parameters: ?1 the order's number, ?2 the replica.
-- Result: one inserted row, or none.
insert into told (order_id, replica) select ?1, ?2 where not exists (select 1 from told where order_id = ?1)
