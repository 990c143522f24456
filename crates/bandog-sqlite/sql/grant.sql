-- Grants a name to an owner. The waiters' mark (`wanted`) is not changed.
-- ?1 name
-- ?2 owner
-- ?3 fence: the end of the reserved block
-- ?4 expires
-- ?5 ttl
-- ?6 this boot
-- Result: none.
insert into lease (name, owner, fence, expires, ttl, boot, stamp) values (?1, ?2, ?3, ?4, ?5, ?6, 1)
on conflict (name) do update set
    owner = excluded.owner, fence = excluded.fence, expires = excluded.expires, ttl = excluded.ttl,
    boot = excluded.boot, stamp = lease.stamp + 1;
