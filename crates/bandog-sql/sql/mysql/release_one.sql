-- Releases a mutex for which no client waits, in one round trip and one transaction. It is one prepared statement, and no
-- block: a block and its row would take a fifth longer. `LockState` decides all other releases. If another transaction has
-- locked the row, the statement fails at once.
-- $1 one name
-- $2 the claim
-- Result: no row. One row is changed if the claim is released.
set statement innodb_lock_wait_timeout = 0 for
update bandog_lease set owner = null, expires = null
where name = $1 and owner = $2 and expires > utc_timestamp(6) and state is null and not starving and not wanted
