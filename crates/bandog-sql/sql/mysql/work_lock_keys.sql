-- Locks keys of order until the end of the transaction.
-- $1 the numbers of their rows
-- Result: rows without a meaning.
select number from bandog_work_lock force index (primary) where number in ($1) order by number for update
