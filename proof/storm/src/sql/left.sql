-- The data that remains although no lock is in use: holders, and requests of waiters for a notification (`wanted`), and
-- the holds and places of locks that are not mutexes, and records. A semaphore keeps its limits. The records of barriers
-- stay, and for some time those of open latches, whose first line is the count.
-- Parameters: none.
-- Result: one text for each unexpected row.
select 'row ' || name || ': owner ' || coalesce(owner, 'none') || ', wanted ' || wanted from lease
where owner is not null or wanted <> 0
union all
select 'claim of ' || name || ': ' || kind || ', ' || iif(fence is null, 'a place', 'a hold') from claim
union all
select 'limit of ' || name || ': ' || permits from semaphore where permits <> 3
union all
select 'record ' || name from record
where name not like 'barrier/%' and not (name like 'latch/%' and (value = '0' or value like '0' || char(10) || '%'));
