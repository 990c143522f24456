-- Creates the tables of an empty database. The same transaction sets application_id and user_version.
-- Parameters: none.
-- Result: none.

-- One row for each name that was ever locked or waited for. A row is deleted only if its name is
-- never used again, because its fence must be kept.
create table lease (
    name    text    not null primary key,
    owner   text,                           -- the claim that holds it; null when it is free
    fence   integer not null default 0,     -- the end of the last reserved block of fences
    expires integer not null default 0,     -- when the hold expires, in ns of the boot clock of `boot`
    ttl     integer not null default 0,     -- how long the last grant or renewal is valid, in ns
    stamp   integer not null default 0,     -- rises with every grant and renewal
    boot    text    not null default '',    -- the boot id of that clock
    wanted  integer not null default 0      -- waiters' mark: 1: a waiter subscribes; 2: and a client starves
) strict, without rowid;

-- Sightings. A sighting says when a boot first observed a hold of another boot. The clocks of two boots cannot be
-- compared, so for the observing boot the hold expires when its `stamp` has not changed for the hold's ttl. Each boot
-- that observes a hold has its own row.
create table sighting (
    name    text    not null,
    boot    text    not null,               -- the boot that observes the hold
    since   integer not null,               -- when it first observed the stamp, in ns of its boot clock
    stamp   integer not null,               -- the observed stamp
    primary key (name, boot)
) strict, without rowid;
