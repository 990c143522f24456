-- A database that a program with tables of version 3 has written: a held mutex, a free mutex and a record. The program
-- did not know other kinds of locks. The boot id was replaced.
pragma application_id = 1650749287;
pragma user_version = 3;
BEGIN TRANSACTION;
CREATE TABLE client (
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
CREATE TABLE lease (
    name    text    not null primary key,
    owner   text,                           -- who holds it; null when it is free
    fence   integer not null default 0,     -- the end of the last block of fences that was reserved
    expires integer not null default 0,     -- when the hold ends, in ns of the boot clock of `boot`
    ttl     integer not null default 0,     -- how long the last grant or renewal was for, in ns
    stamp   integer not null default 0,     -- grows with every grant and renewal
    boot    text    not null default '',    -- the boot whose clock counted
    wanted  integer not null default 0      -- 1 when somebody waits for the bell
) strict, without rowid;
INSERT INTO "lease" VALUES('freed',NULL,1795291227368307,26944616970030,30000000000,2,'5eedb007-0000-4000-8000-000000000000',0);
INSERT INTO "lease" VALUES('held','1f24c4df-e336-8b88-b217-79011749a46c:1',1795291227363835,26944620565305,30000000000,2,'5eedb007-0000-4000-8000-000000000000',0);
CREATE TABLE line (
    name    text    not null,               -- the record
    slot    text    not null,               -- where the line stands: a new one takes the place of the old
    value   text    not null,
    primary key (name, slot)
) strict;
CREATE TABLE record (
    name    text    not null primary key,
    version integer not null,               -- grows with every writing: the wall clock in µs, or the last one and 1
    value   text    not null
) strict;
INSERT INTO "record" VALUES('job/one',1795291227368479,'value');
CREATE TABLE sighting (
    name    text    not null,
    boot    text    not null,               -- the boot that watches
    since   integer not null,               -- when it saw the stamp first, in ns of its boot clock
    stamp   integer not null,               -- the stamp that it saw
    primary key (name, boot)
) strict, without rowid;
COMMIT;
