-- Ends a part: what it did belongs to the transaction.
-- Parameters: none.
-- Result: none.
release part;
