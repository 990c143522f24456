-- Reads which tables of work queues exist, and their version.
-- $1 the database
-- Result: whether the tables exist that all layouts have, whether that of the queues of the layout 2 does, and that of the layout
-- 1; the version or null.
select 4 = (select count(*) from information_schema.tables where table_schema = database() and table_name in
        ('bandog_work', 'bandog_work_body', 'bandog_work_kept', 'bandog_work_lock')),
    exists (select 1 from information_schema.tables where table_schema = database() and table_name = 'bandog_work_queues'),
    exists (select 1 from information_schema.columns where table_schema = database() and table_name = 'bandog_work_queue'
        and column_name = 'number'),
    (select value from bandog_meta where name = 'work')
