-- Claims mutexes that are free, in one transaction and one round trip: all of them, or none. It is one prepared statement for
-- any number of names. `LockState` decides all other claims, with rows that the transaction has locked.
--
-- The rows of the leases are changed first, and the fences only if all leases were free: a transaction that checks a lock
-- must not find another fence than that of its grant. `row_count()` is two for each row that was there and was changed. If
-- another transaction has locked a row, the statement fails at once; transactions of users can keep rows for any time.
--
-- The columns are changed in the order of the text, and each condition sees the changes before it. So the new owner of a row
-- marks that it was free. A claim that is repeated finds its id and a time that has not come, and changes nothing.
-- $json(1, 2, 4, 5) the names, without duplicates; the claims; the ttls, in µs; the numbers of fences
-- $3, $6, $7, $8 as on PostgreSQL; not used
-- Result: if all claims are granted, one row for each: name, the verdict `granted`, last fence, and a number without a
-- meaning. Otherwise no row.
begin not atomic
    start transaction;
    set statement innodb_lock_wait_timeout = 0 for
    insert into bandog_lease (name, owner, expires)
    select unhex(j.name), unhex(j.id), utc_timestamp(6) + interval j.ttl microsecond
    from json_table($json(1, 2, 4, 5), '$[*]' columns (
        name varchar(2048) path '$[0]', id varchar(255) path '$[1]', ttl bigint path '$[2]')) j
    on duplicate key update
        owner = if(state is null and (expires <= utc_timestamp(6) or owner is null and expires is null),
            values(owner), owner),
        starving = if(owner = values(owner) and state is null and (expires is null or expires <= utc_timestamp(6)),
            false, starving),
        expires = if(owner = values(owner) and state is null and (expires is null or expires <= utc_timestamp(6)),
            values(expires), expires);
    if row_count() = 2 * $count(1) then
        set statement innodb_lock_wait_timeout = 0 for
        insert into bandog_fence (name, fence)
        select unhex(j.name), timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) + j.fences
        from json_table($json(1, 2, 4, 5), '$[*]' columns (
            name varchar(2048) path '$[0]', fences bigint path '$[3]')) j
        on duplicate key update fence = greatest(bandog_fence.fence + j.fences, values(fence))
        returning name, 'granted', fence, 0;
        commit;
    else
        rollback;
    end if;
end
