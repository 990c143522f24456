-- Undoes a transaction that has failed to complete a run, and begins the next one. A failed transaction has lost its own
-- level, so the next one would have that of the session.
rollback and chain;
set transaction isolation level read committed
