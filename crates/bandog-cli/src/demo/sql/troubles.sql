-- What went wrong, the last first.
-- Parameters: none.
-- Result: one row for each trouble: the replica's number, what went wrong.
select replica, trouble from trouble order by rowid desc
