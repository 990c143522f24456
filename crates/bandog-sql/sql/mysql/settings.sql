-- Reads the settings of the server that endanger locks.
-- Parameters: none.
-- Result: innodb_flush_log_at_trx_commit, whether there is a binary log, sync_binlog, innodb_doublewrite, max_connections,
-- the names of bandog's tables that have another engine, the version, the time, the limit of connections of
-- the user (0: none), max_allowed_packet, the name of a status, the number of connections.
select @@global.innodb_flush_log_at_trx_commit, @@global.log_bin, @@global.sync_binlog,
    cast(@@global.innodb_doublewrite as char), @@global.max_connections,
    (select coalesce(group_concat(table_name order by table_name separator '\n'), '') from information_schema.tables
        where table_schema = database() and left(table_name, char_length('bandog_')) = 'bandog_' and engine <> 'InnoDB'),
    version(), timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)), @@session.max_user_connections,
    @@global.max_allowed_packet;
show global status like 'Threads_connected'
