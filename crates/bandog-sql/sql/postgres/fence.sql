-- Checks in a transaction of the user that a claim holds its lock. Locks the row of the fence until the end of the
-- transaction: grants need this row, and renewals and releases do not. `$schema` is replaced by the schema of the tables.
--
-- `seen` and `l` are as they were at the beginning of the statement (or of the transaction, if it is not READ COMMITTED),
-- and `f` is the present row. So the two fences differ if the lock was granted again in between. In the other isolation
-- levels, PostgreSQL then refuses the statement itself; the time of the expiry is not compared, because these
-- transactions do not see renewals.
-- $1 name
-- $2 the claim
-- $3 the id of the store
-- $4 the fence
-- Result: the fence. If the claim does not hold the lock, the conversion to a number fails, and its error has the reason.
with locked as materialized (
    select l.owner, l.expires
    from $schema.bandog_lease l
    join $schema.bandog_fence seen on seen.name = l.name
    join $schema.bandog_fence f on f.name = l.name
    where l.name = $1::text and f.fence = seen.fence
    for share of f
)
select (case
    when (select value from $schema.bandog_meta where name = 'id') is distinct from $3::text
        then 'bandog: this is not the database of the lock'
    when exists (select from locked where owner = $2::text
            and (expires > clock_timestamp() or current_setting('transaction_isolation') <> 'read committed'))
        then $4::text
    else 'bandog: this claim does not hold the lock'
end)::bigint as fence
