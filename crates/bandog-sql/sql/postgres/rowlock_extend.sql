-- Sets the time after which the server ends this session if it sends nothing. It lasts until the end of the transaction.
-- $1 the time, in ms; it is a part of the text
-- Result: none.
set local idle_in_transaction_session_timeout = $1
