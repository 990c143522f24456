-- Stores this boot's first sighting of a hold of another boot.
-- ?1 name
-- ?2 this boot
-- ?3 since
-- ?4 stamp
-- Result: none.
insert into sighting (name, boot, since, stamp) values (?1, ?2, ?3, ?4)
on conflict (name, boot) do update set since = excluded.since, stamp = excluded.stamp;
