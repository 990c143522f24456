-- Reads whether the tables of work queues exist, and their version.
-- $1 the database
-- Result: whether all of them exist, the version or null.
select 5 = (select count(*) from information_schema.tables where table_schema = database() and table_name in
        ('bandog_work_queue', 'bandog_work', 'bandog_work_body', 'bandog_work_kept', 'bandog_work_lock')),
    (select value from bandog_meta where name = 'work')
