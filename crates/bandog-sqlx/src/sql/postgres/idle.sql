-- Ends the session if this transaction is idle for {idle} ms. A shorter limit stays. 0: no limit.
select set_config('idle_in_transaction_session_timeout', least({idle}, nullif(setting::bigint, 0))::text, true)
    from pg_settings where name = 'idle_in_transaction_session_timeout'
