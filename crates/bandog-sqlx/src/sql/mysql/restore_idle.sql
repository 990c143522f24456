-- Restores what idle.sql has set.
set session wait_timeout = @bandog_wait_timeout
    /*M! , session idle_transaction_timeout = @bandog_idle, session idle_write_transaction_timeout = @bandog_idle_write */
