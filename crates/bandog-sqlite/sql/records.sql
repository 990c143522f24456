-- Adds records, which are version 3 of the tables. A new database gets them after registry.sql, an old one when it is
-- opened, in one transaction with the setting of user_version.
-- Parameters: none.
-- Result: none.

-- Small texts that are replaced whole, each for what has a state of its own beside locks.
create table record (
    name    text    not null primary key,
    version integer not null,               -- grows with every writing: the wall clock in µs, or the last one and 1
    value   text    not null
) strict;

-- The history of records. A record's lines are deleted with it.
create table line (
    name    text    not null,               -- the record
    slot    text    not null,               -- where the line stands: a new one takes the place of the old
    value   text    not null,
    primary key (name, slot)
) strict;
