-- Writes a new hold or a new place. If the claim has an expired row, the new row replaces it.
-- ?1 name
-- ?2 id
-- ?3 kind
-- ?4 rank
-- ?5 fence: the end of the reserved block, or null for a place
-- ?6 expires
-- ?7 ttl
-- ?8 this boot
-- Result: none.
insert into claim (name, id, kind, rank, fence, expires, ttl, boot, stamp) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1)
on conflict (name, id) do update set
    kind = excluded.kind, rank = excluded.rank, fence = excluded.fence, expires = excluded.expires, ttl = excluded.ttl,
    boot = excluded.boot, stamp = claim.stamp + 1;
