-- Sets the time after which the server ends this session if it sends nothing. It lasts until the end of the transaction.
-- $1 the time, in ms
-- Result: a row without a meaning.
select set_config('idle_in_transaction_session_timeout', $1::bigint::text, true)
