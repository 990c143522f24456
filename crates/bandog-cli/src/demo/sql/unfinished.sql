-- The first step of a scheduled sweep: the orders that were not paid in time, and those that a replica closed which did
-- not live to give their stock back.
-- Parameters: ?1 now, in ms of the Unix epoch.
-- Result: id, item, units of each.
select id, item, units from orders
where (state = 'unpaid' and overdue <= ?1)
    or (state = 'closed' and not exists (select 1 from restoration where order_id = orders.id))
order by id
