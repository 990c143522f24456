-- Creates the tables of version 1, as far as they are missing, in the database of the URL. The version comes last.
-- Parameters: none.
-- Result: none.

-- Names are bytes, so that no collation decides which names are equal.

-- The last fence of each lock. It never goes back, so the rows stay when the locks are free. Renewals do not touch them.
create table if not exists bandog_fence (
    name  varbinary(1024) not null primary key,  -- the lock
    fence bigint not null                        -- the last fence that was reserved
) engine = InnoDB row_format = dynamic default charset = utf8mb4 collate = utf8mb4_bin;

-- The leases.
create table if not exists bandog_lease (
    name     varbinary(1024) not null primary key,  -- the lock
    owner    varchar(255),                      -- the claim that holds it; `*` if `state` has holds; null if it is free
    expires  datetime(6),                       -- the UTC time at which the last hold expires; null if the lock is free
    starving boolean not null default false,    -- whether a client starves; then the next release makes an offer
    wanted   boolean not null default false,    -- whether a subscriber waits; then the next release notifies
    state    mediumtext                         -- holds, places and permits, if the lock is more than a mutex without a queue
) engine = InnoDB row_format = dynamic default charset = utf8mb4 collate = utf8mb4_bin;

-- The channels that were notified. Clients with subscribers read their numbers again and again.
create table if not exists bandog_channel (
    name   varbinary(64) not null primary key,
    number bigint not null,                     -- rises with each notification: the time in microseconds, or the last + 1
    index (number)                              -- for the deletion of old rows
) engine = InnoDB row_format = dynamic default charset = utf8mb4 collate = utf8mb4_bin;

-- Small texts that are replaced as a whole, such as the state of a job.
create table if not exists bandog_record (
    name    varbinary(1024) not null primary key,
    version bigint not null,                    -- rises with each write: the time in microseconds, or the last version + 1
    value   longblob not null                   -- UTF-8
) engine = InnoDB row_format = dynamic default charset = utf8mb4 collate = utf8mb4_bin;

-- The history of records. The lines of a record are deleted together with the record.
create table if not exists bandog_line (
    name  varbinary(1024) not null,             -- the record
    slot  varbinary(64) not null,               -- a new line replaces the line of the same slot
    value longblob not null,                    -- UTF-8
    primary key (name, slot)
) engine = InnoDB row_format = dynamic default charset = utf8mb4 collate = utf8mb4_bin;

-- The clients that hold or wait for a lock. Operators read this table. No grant depends on it.
create table if not exists bandog_client (
    id      varbinary(64) not null primary key,
    host    text not null,
    pid     bigint not null,
    program text not null,
    since   datetime(6) not null,               -- the start of the client, by its own clock, in UTC
    waits   longtext not null,                  -- the names for which it waits, one a line; then its blocked calls, after a tab
    prefix  text not null,
    expires datetime(6) not null
) engine = InnoDB row_format = dynamic default charset = utf8mb4 collate = utf8mb4_bin;

-- The version of these tables, and the settings that all clients share.
create table if not exists bandog_meta (
    name  varbinary(255) not null primary key,
    value longtext not null
) engine = InnoDB row_format = dynamic default charset = utf8mb4 collate = utf8mb4_bin;

-- Fails if a table of another program has one of these names.
select name, value from bandog_meta where 1 = 0;
select name, fence from bandog_fence where 1 = 0;
select name, owner, expires, starving, wanted, state from bandog_lease where 1 = 0;
select name, version, value from bandog_record where 1 = 0;
select name, slot, value from bandog_line where 1 = 0;
select id, host, pid, program, since, waits, prefix, expires from bandog_client where 1 = 0;
select name, number from bandog_channel where 1 = 0;

insert ignore into bandog_meta (name, value) values ('version', '1')
