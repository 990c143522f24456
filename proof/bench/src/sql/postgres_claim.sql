-- Takes a lock of the floor if it is free.
-- $1 name
-- $2 owner
-- Result: one row with the fence if it is granted.
insert into floor.lock as l (name, owner, expires, fence) values ($1, $2, now() + interval '30 s', 1)
on conflict (name) do update set owner = excluded.owner, expires = excluded.expires, fence = l.fence + 1
where l.owner is null or l.expires < now() returning fence
