-- Errors of replicas, the last first.
-- Parameters: none.
-- Result: one row for each error: the replica's number, the error.
select replica, trouble from trouble order by rowid desc
