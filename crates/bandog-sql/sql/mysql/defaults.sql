-- Reads the settings with which the sessions of other programs begin. The setting of the isolation has another name on old
-- servers of MariaDB.
-- Parameters: none.
-- Result: the time zone, the zone of the system, the name of the isolation level, the isolation level.
select @@global.time_zone, @@global.system_time_zone;
show global variables where variable_name in ('transaction_isolation', 'tx_isolation')
