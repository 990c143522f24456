-- Reads what a new session has to know. It reads the catalogue itself: functions such as `to_regclass` use a cache, which
-- does not have the tables that another session has just created.
-- $1 the schema
-- Result: the version of the server, whether it is a replica, its encoding, whether the schema exists, whether it has the
-- table of the version, whether it has all tables of bandog, whether transactions are read-only by default, whether the user
-- may use the schema; true if there is none.
select current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('server_encoding'),
    exists (select from pg_namespace where nspname = $1::text), coalesce(bool_or(relname = 'bandog_meta'), false), count(*) = 6,
    current_setting('default_transaction_read_only')::bool,
    coalesce((select has_schema_privilege(oid, 'usage') from pg_namespace where nspname = $1::text), true)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1::text and c.relname in
        ('bandog_meta', 'bandog_fence', 'bandog_lease', 'bandog_record', 'bandog_line', 'bandog_client')
