-- Checks in a transaction of the user that a claim holds its lock. Locks the row of the fence until the end of the
-- transaction: grants need this row, and renewals and releases do not. `$schema` is replaced by the database of the tables,
-- and each number by a placeholder.
--
-- `seen` and `l` are as they were at the beginning of the statement (or of the transaction, if it is not READ COMMITTED),
-- and `locked` is the present row. So the two fences differ if the lock was granted again in between. In a transaction with
-- a snapshot, the time of the expiry is not compared, because it does not see renewals. The variable with the level has
-- one name in MariaDB and another in MySQL.
--
-- MariaDB knows if a transaction is open. A statement such as `create table` has committed it.
--
-- A function in a statement cannot raise an error with a text of its own. But the error about a name of a lock that is too
-- long contains the name.
-- $1 name
-- $2 the claim
-- $3 the id of the store
-- $4 the fence
-- Result: the fence. If the claim does not hold the lock, the statement fails, and its error has the reason.
select cast(case
    when coalesce((select m.value from $schema.bandog_meta m where m.name = 'id'), '') <> $3
        then get_lock(rpad('bandog: this is not the database of the lock', 200, ' '), 0)
    /*M! when @@autocommit = 1 and @@in_transaction = 0
        then get_lock(rpad('bandog: no transaction is open', 200, ' '), 0) */
    when locked.fence is null or locked.fence < cast($4 as signed)
        then get_lock(rpad('bandog: this claim does not hold the lock', 200, ' '), 0)
    when seen.fence is null or seen.fence < cast($4 as signed)
        then get_lock(rpad('bandog: the transaction began before the lock was granted', 200, ' '), 0)
    when locked.fence = seen.fence and l.owner = $2
            and (l.expires > sysdate(6) + interval timestampdiff(microsecond, now(6), utc_timestamp(6)) microsecond
                /*M! or @@tx_isolation <> 'READ-COMMITTED' */ /*!80000 or @@transaction_isolation <> 'READ-COMMITTED' */)
        then $4
    else get_lock(rpad('bandog: this claim does not hold the lock', 200, ' '), 0)
end as signed) as fence
from (select $1 as name) asked
left join (select f.name, f.fence from $schema.bandog_fence f where f.name = $1 lock in share mode) locked on true
left join $schema.bandog_fence seen on seen.name = $1
left join $schema.bandog_lease l on l.name = $1
