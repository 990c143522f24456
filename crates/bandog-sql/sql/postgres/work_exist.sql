-- Reads which tables of work queues exist, from the catalogue, and their version.
-- $1 the schema
-- Result: whether the tables exist that all layouts have, whether that of the queues of the layout 2 does, and that of the layout
-- 1; the version or null.
with found as (
    select c.oid, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1::text
)
select 3 = (select count(*) from found where relname in ('bandog_work', 'bandog_work_body', 'bandog_work_kept')),
    exists (select from found where relname = 'bandog_work_queues'),
    exists (select from found join pg_attribute a on a.attrelid = oid and a.attname = 'number'
        where relname = 'bandog_work_queue'),
    (select value from bandog_meta where name = 'work')
