-- Claims mutexes that are free, in one transaction and one round trip: all of them, or none. It is one prepared statement for
-- each length to which lists are filled up. `LockState` decides all other claims, with rows that the transaction has locked.
--
-- The rows of the leases are changed first, and the fences only if all leases were free: a transaction that checks a lock
-- must not find another fence than that of its grant. If another transaction has locked a row, the statement fails at once;
-- transactions of users can keep rows for any time.
-- $list(1) the names, without duplicates, filled up with empty names
-- $count(1) the number of names
-- $list(2) the claims
-- $3 the claim that one claim replaces, as in `claim_one`; not used
-- $4 the ttl of all claims, in µs
-- $5 the number of fences of each claim
-- Result: if all claims are granted, one row for each: name, last fence. Otherwise no row.
begin not atomic
    declare granted boolean default false;
    start transaction;
    set statement innodb_lock_wait_timeout = 0 for
    update bandog_lease force index (primary)
    set starving = coalesce(starving and expires > utc_timestamp(6), false),
        owner = elt(field(name, $list(1)), $list(2)),
        expires = utc_timestamp(6) + interval $4 microsecond
    where name in ($list(1)) and state is null and (owner is null or expires <= utc_timestamp(6));
    if row_count() = $count(1) then
        set statement innodb_lock_wait_timeout = 0 for
        update bandog_fence force index (primary)
        set fence = greatest(fence, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))) + $5
        where name in ($list(1));
        set granted = row_count() = $count(1);
    end if;
    if granted then
        select name, fence from bandog_fence force index (primary) where name in ($list(1));
        commit;
    else
        rollback;
    end if;
end
