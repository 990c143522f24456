-- The data that remains although no lock is in use: holders, and requests of waiters for a notification (`wanted`), and
-- the holds and places of locks that are not mutexes. A semaphore keeps its limits.
-- Parameters: none.
-- Result: one text for each unexpected row.
select 'row ' || name || ': owner ' || coalesce(owner, 'none') || ', wanted ' || wanted from lease
where owner is not null or wanted <> 0
union all
select 'claim of ' || name || ': ' || kind || ', ' || iif(fence is null, 'a place', 'a hold') from claim
union all
select 'limit of ' || name || ': ' || permits from semaphore where permits <> 3;
