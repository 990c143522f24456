-- Frees an advisory lock of this session.
-- $1 name
-- Result: whether the session had it.
select pg_advisory_unlock(hashtextextended($1::text, 0))
