-- Sets the time after which the server ends this session if it sends nothing. PostgreSQL 13 and older have no such time.
-- $1 the time, in ms; 0 for none; it is a part of the text
-- Result: rows without a meaning.
select set_config(name, $1::text, false) from pg_settings where name = 'idle_session_timeout'
