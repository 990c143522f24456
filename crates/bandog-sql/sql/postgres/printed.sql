-- The tables of bandog. Execute this once, for example with `psql --set ON_ERROR_STOP=1 --file`, as a user who may create
-- schemas. The user of the locks then needs no further rights, and its URL may have the option create=false.

begin;
create schema if not exists $schema;
set local search_path to $schema, pg_catalog;

$tables

grant usage on schema $schema to $user;
grant select, insert, update, delete on $names to $user;
commit;
