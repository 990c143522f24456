-- Creates the tables of version 1, as far as they are missing, in the first schema of the search path. It runs in one
-- transaction, under an advisory lock.
-- Parameters: none.
-- Result: none.

-- The version of these tables, their id (a random text, which the first client writes), and the settings that all clients
-- share.
create table if not exists bandog_meta (
    name  text collate "C" not null primary key,
    value text not null
);

-- The last fence of each lock. It never goes back, so the rows stay when the locks are free. Renewals do not touch them.
create table if not exists bandog_fence (
    name  text collate "C" not null primary key,  -- the lock
    fence bigint not null                         -- the last fence that was reserved
) with (fillfactor = 50);

-- The leases. Only the name has an index: so an update of the other columns writes no index (a HOT update). Half of each
-- page is free for such updates.
create table if not exists bandog_lease (
    name     text collate "C" not null primary key,  -- the lock
    owner    text,                      -- the claim that holds it; `*` if several can hold it; null if it is free
    expires  timestamptz,               -- the time at which the last hold expires; null if the lock is free
    starving boolean not null default false,  -- whether a client starves; then the next release makes an offer
    wanted   boolean not null default false,  -- whether a subscriber waits; then the next release notifies
    state    text                       -- holds, places and permits, if the lock is more than a mutex without a queue
) with (fillfactor = 50);

-- Small texts that are replaced as a whole, such as the state of a job.
create table if not exists bandog_record (
    name    text collate "C" not null primary key,
    version bigint not null,            -- rises with each write: the time in µs, or the last version + 1
    value   bytea not null              -- UTF-8
);

-- The history of records. The lines of a record are deleted together with the record.
create table if not exists bandog_line (
    name  text collate "C" not null,    -- the record
    slot  text collate "C" not null,    -- a new line replaces the line of the same slot
    value bytea not null,               -- UTF-8
    primary key (name, slot)
);

-- The clients that hold or wait for a lock. Operators read this table. No grant depends on it.
create table if not exists bandog_client (
    id      text collate "C" not null primary key,
    host    text not null,
    pid     bigint not null,
    program text not null,
    since   timestamptz not null,       -- the start of the client, by its own clock
    waits   text not null,              -- the names for which it waits, one a line; then its blocked calls, after a tab
    prefix  text not null,
    expires timestamptz not null
);

-- Fails if a table of another program has one of these names.
select name, value from bandog_meta where 1 = 0;
select name, fence from bandog_fence where 1 = 0;
select name, owner, expires, starving, wanted, state from bandog_lease where 1 = 0;
select name, version, value from bandog_record where 1 = 0;
select name, slot, value from bandog_line where 1 = 0;
select id, host, pid, program, since, waits, prefix, expires from bandog_client where 1 = 0;

insert into bandog_meta (name, value) values ('version', '1') on conflict do nothing;
