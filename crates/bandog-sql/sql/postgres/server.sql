-- Reads what a new session has to know.
-- $1 the schema
-- Result: the version of the server, whether it is a replica, its encoding, whether the schema exists, whether the schema
-- has tables of bandog.
select current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('server_encoding'),
    to_regnamespace(quote_ident($1::text)) is not null,
    to_regclass(quote_ident($1::text) || '.bandog_meta') is not null
