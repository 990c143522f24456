-- Reads whether the tables of work queues exist, from the catalogue, and their version.
-- $1 the schema
-- Result: whether all of them exist, the version or null.
select 4 = (select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1::text
        and c.relname in ('bandog_work_queue', 'bandog_work', 'bandog_work_body', 'bandog_work_kept')),
    (select value from bandog_meta where name = 'work')
