-- Ends a part and keeps its writes in the transaction.
-- Parameters: none.
-- Result: none.
release part;
