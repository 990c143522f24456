-- Adds the registry of clients, which is version 2 of the tables. A new database gets it after schema.sql, an old one
-- when it is opened, in one transaction with the setting of user_version.
-- Parameters: none.
-- Result: none.

-- The clients that hold or wait for something, or did a moment ago: for people, nothing is decided by it.
create table client (
    id      text    not null primary key,   -- the client: the first half of its owners' names
    host    text    not null,               -- the name of its machine
    pid     integer not null,               -- its process there
    program text    not null,               -- the program, as it calls itself
    since   integer not null,               -- since when it lives, in ns of its wall clock since 1970
    prefix  text    not null,               -- what its names begin with
    waits   text    not null,               -- the names that it waits for, one a line
    ttl     integer not null,               -- how long the last announcement was for, in ns
    expires integer not null,               -- when the row ends, in ns of the boot clock of `boot`
    boot    text    not null,               -- the boot whose clock counted
    told    integer not null                -- the wall clock at the last announcement, in ns since 1970
) strict, without rowid;
