-- Releases a mutex for which no client waits, in one round trip. It is one prepared statement. `LockState` decides all other
-- releases. If another transaction has locked the row, the statement fails at once.
-- $1 one name
-- $2 the claim
-- $3 to $6 as in the statement for many names; not used
-- Result: if the claim is released, one row: name, the verdict `freed`. Otherwise no row.
begin not atomic
    set statement innodb_lock_wait_timeout = 0 for
    update bandog_lease set owner = null, expires = null
    where name = $1 and owner = $2 and expires > utc_timestamp(6) and state is null and not starving and not wanted;
    if row_count() = 1 then
        select $1, 'freed';
    end if;
end
