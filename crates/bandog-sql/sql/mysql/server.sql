-- Reads what a new session has to know.
-- $1 the database
-- Result: the version of the server, whether it is read-only, a column without a meaning, whether the database exists,
-- whether it has tables of bandog. MariaDB 12 has words instead of 0 and 1 for `read_only`.
select version(), cast(@@global.read_only as char) not in ('0', 'OFF'), null, true, exists (
    select 1 from information_schema.tables where table_schema = database() and table_name = 'bandog_meta')
