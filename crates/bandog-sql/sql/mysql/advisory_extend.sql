-- Sets the time after which the server ends this session if it sends nothing. Only MariaDB executes the comment.
-- $1 the time, in s; it is a part of the text
-- Result: none.
set session wait_timeout = $1 /*M!, session idle_transaction_timeout = $1 */
