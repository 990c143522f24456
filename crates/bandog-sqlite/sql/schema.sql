-- Makes the tables of an empty database, in one transaction with the setting of application_id and user_version.
-- Parameters: none.
-- Result: none.

-- One row for each name that was ever locked or wanted. A row stays when its lease ends, because its fence must.
create table lease (
    name    text    not null primary key,
    owner   text,                           -- who holds it; null when it is free
    fence   integer not null default 0,     -- the end of the last block of fences that was reserved
    expires integer not null default 0,     -- when the hold ends, in ns of the boot clock of `boot`
    ttl     integer not null default 0,     -- how long the last grant or renewal was for, in ns
    stamp   integer not null default 0,     -- grows with every grant and renewal
    boot    text    not null default '',    -- the boot whose clock counted
    wanted  integer not null default 0      -- 1: somebody waits for the bell; 2: and a client starves
) strict, without rowid;

-- Holds of another boot that somebody watches: nobody can compare clocks, so a hold has ended when `stamp` did not
-- change for its ttl. Each boot that watches has a row of its own, since two of them cannot compare clocks either.
create table sighting (
    name    text    not null,
    boot    text    not null,               -- the boot that watches
    since   integer not null,               -- when it saw the stamp first, in ns of its boot clock
    stamp   integer not null,               -- the stamp that it saw
    primary key (name, boot)
) strict, without rowid;
