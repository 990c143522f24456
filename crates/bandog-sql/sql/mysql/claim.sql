-- Claims a free mutex, in one round trip. All other claims are `complex`: they are decided by `LockState`, with rows that the
-- transaction has locked. The row of the lease is locked and changed first, and the fence only if the lease was free: a
-- transaction that checks a lock must not find another fence than that of its grant. If another transaction has locked a
-- row, the statement fails at once; transactions of users can keep rows for any time.
-- $1 one name
-- $2 the claim
-- $3 the claim that the claim replaces; not used
-- $4 the ttl, in µs
-- $5 the number of fences
-- $6, $7, $8 as on PostgreSQL; not used
-- Result: one row: name, verdict, last fence, and a number without a meaning. The verdict is `granted` or `complex`.
set statement innodb_lock_wait_timeout = 0 for update bandog_lease
set owner = $2, expires = utc_timestamp(6) + interval $4 microsecond, starving = false
where name = $1 and state is null and (owner is null or expires <= utc_timestamp(6))
    and exists (select 1 from bandog_fence f where f.name = $1);
set @bandog_name = if(row_count() = 1, $1, null);
set statement innodb_lock_wait_timeout = 0 for update bandog_fence
set fence = last_insert_id(greatest(fence, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))) + $5)
where name = @bandog_name;
select $1, if(row_count() = 1, 'granted', 'complex'), last_insert_id(), 0
