-- Takes the lock under which one session creates the tables of a database. It waits for two seconds at most.
-- Parameters: none.
-- Result: whether the session has the lock.
select get_lock(concat('bandog ', left(sha2(database(), 256), 32)), 2)
