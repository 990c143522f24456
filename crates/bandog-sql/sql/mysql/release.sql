-- Releases mutexes for which no client waits, in one transaction and one round trip: all of them, or none. It is one prepared
-- statement for any number of names. Otherwise as the statement for claims: the time, which is changed first, marks that the
-- claim held the lock. The rows that are inserted, because a lock has none, are rolled back.
-- $json(1, 2) the names, without duplicates, and the claims
-- $3, $4, $5, $6 as on PostgreSQL; not used
-- Result: if all claims are released, one row for each: name, the verdict `freed`. Otherwise no row.
begin not atomic
    start transaction;
    set statement innodb_lock_wait_timeout = 0 for
    insert into bandog_lease (name, owner)
    select unhex(j.name), unhex(j.id)
    from json_table($json(1, 2), '$[*]' columns (
        name varchar(2048) path '$[0]', id varchar(255) path '$[1]')) j
    on duplicate key update
        expires = if(owner = values(owner) and expires > utc_timestamp(6) and state is null and not starving and not wanted,
            null, expires),
        owner = if(expires is null, null, owner);
    if row_count() = 2 * $count(1) then
        commit;
        select unhex(j.name), 'freed' from json_table($json(1, 2), '$[*]' columns (name varchar(2048) path '$[0]')) j;
    else
        rollback;
    end if;
end
