-- Releases mutexes for which no client waits, in one transaction and one round trip: all of them, or none. It is one prepared
-- statement for each length to which lists are filled up. Otherwise as the statement for claims.
-- $list(1) the names, without duplicates, filled up with empty names
-- $count(1) the number of names
-- $list(2) the claims
-- Result: if all claims are released, one row. Otherwise no row.
begin not atomic
    start transaction;
    set statement innodb_lock_wait_timeout = 0 for
    update bandog_lease force index (primary) set owner = null, expires = null
    where name in ($list(1)) and owner = elt(field(name, $list(1)), $list(2))
        and expires > utc_timestamp(6) and state is null and not starving and not wanted;
    -- The row is sent after the commit. So the client wakes up once.
    if row_count() = $count(1) then
        commit;
        select 'freed';
    else
        rollback;
    end if;
end
