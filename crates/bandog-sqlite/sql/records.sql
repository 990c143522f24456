-- Adds the tables of records, which version 3 has. In a new database, this runs after registry.sql. In a database of an
-- older version, it runs at the upgrade. The same transaction updates user_version.
-- Parameters: none.
-- Result: none.

-- Small texts that are replaced as a whole, such as the state of a job.
create table record (
    name    text    not null primary key,
    version integer not null,               -- rises with every write: the wall clock in µs, or the last version + 1
    value   text    not null
) strict;

-- The history of records. The lines of a record are deleted together with the record.
create table line (
    name    text    not null,               -- the record
    slot    text    not null,               -- the line's key: a new line replaces the old one of its slot
    value   text    not null,
    primary key (name, slot)
) strict;
