-- The first step of a scheduled sweep: the orders that were not paid in time, and closed orders whose stock a killed
-- replica did not return.
-- Parameters: ?1 now, in ms of the Unix epoch.
-- Result: id, item, units of each.
select id, item, units from orders
where (state = 'unpaid' and overdue <= ?1)
    or (state = 'closed' and not exists (select 1 from restoration where order_id = orders.id))
order by id
