-- Begins a part of a transaction that can be rolled back alone.
-- Parameters: none.
-- Result: none.
savepoint part;
