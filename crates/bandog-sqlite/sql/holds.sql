-- Reads the holds of one lock that is not a mutex. With `fence is not null`, SQLite would read all places, too.
-- ?1 name
-- ?2 this boot
-- Result: rows of id, fence, expires, ttl, stamp, whether the row is of this boot, kind, rank; sorted by fence.
select id, fence, expires, ttl, stamp, boot = ?2, kind, rank from claim
where name = ?1 and fence >= 0 order by fence;
