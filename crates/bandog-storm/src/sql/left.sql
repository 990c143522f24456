-- The data that remains although no lock is in use: holders, and requests of waiters for a notification (`wanted`).
-- Parameters: none.
-- Result: one text for each unexpected row.
select 'row ' || name || ': owner ' || coalesce(owner, 'none') || ', wanted ' || wanted from lease
where owner is not null or wanted <> 0;
