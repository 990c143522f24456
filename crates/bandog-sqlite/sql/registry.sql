-- Adds the table of the registry of clients, which version 2 has. In a new database, this runs after schema.sql. In a
-- database of an older version, it runs at the upgrade. The same transaction updates user_version.
-- Parameters: none.
-- Result: none.

-- The clients that hold or wait for a lock, or did so recently. Operators read this table. No decision depends on it.
create table client (
    id      text    not null primary key,   -- the client: the first part of the owners of its leases
    host    text    not null,               -- the name of its machine
    pid     integer not null,               -- its process there
    program text    not null,               -- the name of the program
    since   integer not null,               -- when it started, in ns of its wall clock since 1970
    prefix  text    not null,               -- the prefix of its names
    waits   text    not null,               -- the names that it waits for, one a line
    ttl     integer not null,               -- how long the last registration is valid, in ns
    expires integer not null,               -- when the row expires, in ns of the boot clock of `boot`
    boot    text    not null,               -- the boot id of that clock
    told    integer not null                -- the wall clock at the last registration, in ns since 1970
) strict, without rowid;
