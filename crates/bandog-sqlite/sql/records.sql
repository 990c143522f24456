-- Adds records: version 3 of the tables. It runs after registry.sql in a new database, and at the upgrade of an old
-- one, in one transaction with the update of user_version.
-- Parameters: none.
-- Result: none.

-- Small texts that are replaced as a whole, such as the state of a job.
create table record (
    name    text    not null primary key,
    version integer not null,               -- rises with every write: the wall clock in µs, or the last version + 1
    value   text    not null
) strict;

-- The history of records. A record's lines are deleted with it.
create table line (
    name    text    not null,               -- the record
    slot    text    not null,               -- the line's key: a new line replaces the old one of its slot
    value   text    not null,
    primary key (name, slot)
) strict;
