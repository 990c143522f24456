-- Reads the settings that endanger sessions that hold locks.
-- Parameters: none.
-- Result: the number of the version, the time after which this connection sends a keepalive in s (0: a Unix socket, or
-- never).
select current_setting('server_version_num')::int, current_setting('tcp_keepalives_idle')::int
