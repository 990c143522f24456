-- Writes the hold of a name: a grant, or an offer.
-- ?1 name
-- ?2 owner
-- ?3 fence: the end of the reserved block
-- ?4 expires
-- ?5 ttl
-- ?6 this boot
-- ?7 wanted: see schema.sql
-- Result: none.
insert into lease (name, owner, fence, expires, ttl, boot, stamp, wanted) values (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7)
on conflict (name) do update set
    owner = excluded.owner, fence = excluded.fence, expires = excluded.expires, ttl = excluded.ttl,
    boot = excluded.boot, stamp = lease.stamp + 1, wanted = excluded.wanted;
