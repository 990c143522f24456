-- Keeps something for a time, in place of what was kept before.
-- ?1 queue
-- ?2 kind
-- ?3 id
-- ?4 until
-- ?5 content
-- Result: none.
insert into work_kept (queue, kind, id, until, content) values (?1, ?2, ?3, ?4, ?5)
on conflict (queue, kind, id) do update set until = excluded.until, content = excluded.content;
