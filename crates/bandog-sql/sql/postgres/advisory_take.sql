-- Takes an advisory lock for this session, if no other session has it. Its number is a hash of the name.
-- $1 name
-- Result: whether the session has it.
select pg_try_advisory_lock(hashtextextended($1::text, 0))
