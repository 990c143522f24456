-- The counts of a shop.
-- Parameters: none.
-- Result: one row: orders, closed, restored, restored_more_than_once, phantom_units, ticks, sweeps, swept_by, taken_over,
-- notified, notified_more_than_once.
with times as (select count(*) as times from restoration group by order_id),
    mails as (select count(*) as times from notified group by order_id)
select
    (select count(*) from orders),
    (select count(*) from orders where state = 'closed'),
    (select count(*) from times),
    (select count(*) from times where times > 1),
    (select coalesce(sum(max(units - owned, 0)), 0) from stock),
    (select count(distinct tick) from sweep),
    (select count(*) from sweep),
    (select count(distinct replica) from sweep),
    (select count(*) from sweep where attempt > 1),
    (select count(*) from mails),
    (select count(*) from mails where times > 1)
