-- Creates a record in a transaction of the user, at most once, if another record contains a text. Locks no other record.
-- The transaction must be READ COMMITTED: in the others, the server would lock the other record, or read an old text of it.
-- The variable with the level has one name in MariaDB and another in MySQL. `$schema` is replaced by the database of the
-- tables, and each number by a placeholder.
--
-- If another transaction has created the same record and is still open, the statement waits for its end.
--
-- A function in a statement cannot raise an error with a text of its own. But the error about a name of a lock that is too
-- long contains the name.
-- $1 the name of the new record
-- $2 the name of the other record
-- $3 the text
-- $4 the id of the store
-- Result: none. If a condition is not met, the statement fails, and its error has the reason.
insert into $schema.bandog_record (name, version, value)
select $1,
    cast(case
        when coalesce((select m.value from $schema.bandog_meta m where m.name = 'id'), '') <> $4
            then get_lock(rpad('bandog: this is not the database of the lock', 200, ' '), 0)
        /*M! when @@autocommit = 1 and @@in_transaction = 0
            then get_lock(rpad('bandog: no transaction is open', 200, ' '), 0) */
        when false
                /*M! or @@tx_isolation <> 'READ-COMMITTED' */ /*!80000 or @@transaction_isolation <> 'READ-COMMITTED' */
            then get_lock(rpad('bandog: a run can be completed at the isolation level READ COMMITTED only', 200, ' '), 0)
        when job.name is null and done.name is null
            then get_lock(rpad('bandog: this run has ended, or another node has taken it over', 200, ' '), 0)
        else timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
    end as signed),
    'done'
from (select 1 as one) single
left join $schema.bandog_record job on job.name = $2 and instr(job.value, $3) > 0
left join $schema.bandog_record done on done.name = $1
where true
on duplicate key update version = get_lock(rpad('bandog: this run was completed already', 200, ' '), 0)
