-- Reads the settings that endanger sessions that hold locks. A setting that the server does not have is 0.
-- Parameters: none.
-- Result: the number of the version, the limit of a transaction, the time after which this
-- connection sends a keepalive in s (0: a Unix socket, or never).
select current_setting('server_version_num')::int, coalesce(current_setting('transaction_timeout', true), '0'),
    current_setting('tcp_keepalives_idle')::int
