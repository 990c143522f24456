-- Begins a part of a transaction that can be taken back by itself.
-- Parameters: none.
-- Result: none.
savepoint part;
