-- Releases a mutex for which nobody waits, in one round trip. All other releases are `complex`, as in the statement for
-- claims. If another transaction has locked the row, the statement fails at once.
-- $1 one name
-- $2 the claim
-- $3, $4, $5, $6 as on PostgreSQL; not used
-- Result: one row: name, verdict. The verdict is `freed` or `complex`.
set statement innodb_lock_wait_timeout = 0 for update bandog_lease
set owner = null, expires = null
where name = $1 and owner = $2 and expires > utc_timestamp(6) and state is null and not starving and not wanted;
select $1, if(row_count() = 1, 'freed', 'complex')
