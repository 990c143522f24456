-- The first step of a sweep: the orders that were not paid in time.
-- Parameters: ?1 now, in ms of the Unix epoch.
-- Result: id, item, units of each.
select id, item, units from orders where state = 'unpaid' and overdue <= ?1 order by id
