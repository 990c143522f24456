-- Keeps the text of a worker.
-- $1 the queue
-- $2 the worker, $3 its text, $4 the time in µs for which it is kept
-- Result: none.
insert into bandog_work_kept as k (queue, kind, name, until, content)
select number, 3, $2::text, (extract(epoch from clock_timestamp()) * 1000000)::bigint + $4::bigint, $3::bytea
from bandog_work_queues where name = $1::text
on conflict (queue, kind, name) do update set until = excluded.until, content = excluded.content
