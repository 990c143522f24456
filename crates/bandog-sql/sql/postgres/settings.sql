-- Reads the settings of the server that endanger locks.
-- Parameters: none.
-- Result: fsync, full_page_writes, synchronous_commit, the number of replicas, max_connections, the number of sessions, the
-- names of bandog's tables that are unlogged, the version of the server, the present time.
select current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
    (select count(*) from pg_stat_replication), current_setting('max_connections')::bigint,
    (select count(*) from pg_stat_activity where datname is not null),
    array(select c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = current_schema() and starts_with(c.relname, 'bandog_') and c.relpersistence = 'u' order by 1),
    current_setting('server_version'), clock_timestamp()
