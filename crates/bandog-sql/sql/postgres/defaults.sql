-- Reads the settings with which the sessions of other programs begin.
-- Parameters: none.
-- Result: the time zone, the zone of the system, which PostgreSQL does not distinguish, the name of the isolation level, the
-- isolation level, the limit for idle transactions in ms (0: none).
select max(reset_val) filter (where name = 'TimeZone'), max(reset_val) filter (where name = 'TimeZone'),
    'default_transaction_isolation', max(reset_val) filter (where name = 'default_transaction_isolation'),
    max(reset_val) filter (where name = 'idle_in_transaction_session_timeout')
    from pg_settings where name in ('TimeZone', 'default_transaction_isolation', 'idle_in_transaction_session_timeout')
