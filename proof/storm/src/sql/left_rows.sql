-- The data that remains in PostgreSQL and MariaDB although no lock is in use: holds and places, limits of semaphores that
-- are not 3, marks of clients that starve or want a notification, records, lines of history without a record, and clients.
-- The records of barriers stay, and for some time those of open latches, whose first line is the count 0.
-- Parameters: none.
-- Result: one text for each unexpected row.
select concat('lease ', name, ': owner ', coalesce(owner, 'none'), ', wanted ', wanted, ', starving ', starving, ', state ', state)
from bandog_lease
where owner is not null or wanted or starving
    or state not like '% * limit 3 %' or state like '% hold %' or state like '% place %' or state like '% starving%'
union all
select concat('record ', name) from bandog_record
where name not like 'barrier/%' and not (name like 'latch/%' and substring(value from 1 for 1) = '0')
union all
select concat('line of the missing record ', name) from bandog_line
where name not in (select name from bandog_record)
union all
select concat('client ', id) from bandog_client
