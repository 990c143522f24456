-- Claims a mutex that is free, or that the claim takes over from another claim, in one transaction and one round trip. It is
-- one prepared statement. Otherwise as the statement for many names.
-- $1 one name
-- $2 the claim
-- $3 the claim that the claim replaces, or null
-- $4 the ttl, in µs
-- $5 the number of fences
-- Result: if the claim is granted, one row: name, last fence. Otherwise no row.
begin not atomic
    declare granted boolean default false;
    start transaction;
    set statement innodb_lock_wait_timeout = 0 for
    update bandog_lease
    set starving = coalesce(starving and expires > utc_timestamp(6), false), owner = $2,
        expires = utc_timestamp(6) + interval $4 microsecond
    where name = $1 and state is null and (owner is null or expires <= utc_timestamp(6) or owner = $3);
    if row_count() = 1 then
        set statement innodb_lock_wait_timeout = 0 for
        update bandog_fence
        set fence = last_insert_id(greatest(fence, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))) + $5)
        where name = $1;
        set granted = row_count() = 1;
    end if;
    -- The row is sent after the commit. So the client wakes up once.
    if granted then
        commit;
        select $1, last_insert_id();
    else
        rollback;
    end if;
end
