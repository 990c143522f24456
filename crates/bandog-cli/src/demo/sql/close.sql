-- The second step of a sweep: closes an order. It does not check whether another replica has closed it meanwhile.
-- Parameters: ?1 the order's number.
-- Result: one changed row.
update orders set state = 'closed' where id = ?1
