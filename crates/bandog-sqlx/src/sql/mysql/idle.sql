-- Ends the session if it is idle for {idle} s. A shorter limit stays. On MariaDB, the limits for transactions replace
-- `wait_timeout` unless they are 0.
set @bandog_wait_timeout = @@session.wait_timeout, session wait_timeout = least(@@session.wait_timeout, {idle})
    /*M! , @bandog_idle = @@session.idle_transaction_timeout,
    session idle_transaction_timeout = least(@@session.idle_transaction_timeout, {idle}),
    @bandog_idle_write = @@session.idle_write_transaction_timeout,
    session idle_write_transaction_timeout = least(@@session.idle_write_transaction_timeout, {idle}) */
