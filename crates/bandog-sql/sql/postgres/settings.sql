-- Reads the settings of the server that endanger locks.
-- Parameters: none.
-- Result: fsync, full_page_writes, synchronous_commit, the number of replicas, max_connections, the number of sessions, the
-- names of bandog's tables that are unlogged, the version of the server, the present time, the limit of
-- connections of the user or of the database, the lower one; null if there is none. max_connections is without those that
-- are reserved for administrators.
select current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
    (select count(*) from pg_stat_replication), current_setting('max_connections')::bigint
        - current_setting('superuser_reserved_connections')::bigint
        - coalesce(current_setting('reserved_connections', true)::bigint, 0),
    (select count(*) from pg_stat_activity where datname is not null),
    array(select c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = current_schema() and starts_with(c.relname, 'bandog_') and c.relpersistence = 'u' order by 1),
    current_setting('server_version'), clock_timestamp(),
    (select min(c)::bigint from (select rolconnlimit from pg_roles where rolname = current_user
        union all select datconnlimit from pg_database where datname = current_database()) limits (c) where c >= 0)
