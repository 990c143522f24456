-- Reads what a new session has to know.
-- $1 the database
-- Result: the version of the server, whether it is read-only, a column without a meaning, whether the database exists,
-- whether it has the table of the version, whether it has all tables of bandog. MariaDB 12 has words instead of 0 and 1 for
-- `read_only`.
select version(), cast(@@global.read_only as char) not in ('0', 'OFF'), null, true,
    coalesce(max(table_name = 'bandog_meta'), 0) = 1, count(*) = 7
    from information_schema.tables where table_schema = database() and table_name in
        ('bandog_meta', 'bandog_fence', 'bandog_lease', 'bandog_channel', 'bandog_record', 'bandog_line', 'bandog_client')
