-- Ends the part of a transaction that part.sql has begun, and keeps its writes in the transaction.
-- Parameters: none.
-- Result: none.
release part;
