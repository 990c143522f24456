-- Adds the tables of work queues, which version 5 has. In a new database, this runs after locks.sql. In a database of an
-- older version, it runs at the upgrade. The same transaction updates user_version.
-- Parameters: none.
-- Result: none.

-- The queues. Times are in µs since 1970 by the wall clock, unless something else is said.
create table work_queue (
    id            integer not null primary key,
    name          text    not null unique,
    fence         integer not null,         -- the last fence
    paused        integer not null,         -- 1: no element is delivered
    concurrency   integer,                  -- maximum number of taken elements
    rate          integer,                  -- maximum number of deliveries in a period
    period        integer,                  -- this period, in µs
    next_delivery integer not null          -- the time from which on the rate allows the next delivery
) strict;

-- The elements of queues.
create table work (
    queue     integer not null,
    id        blob    not null,             -- client and number, 8 bytes each, greatest byte first
    phase     integer not null,             -- 0 ready, 1 delayed, 2 blocked, 3 taken, 4 dead
    rank      integer not null,             -- ready: 9 - priority; otherwise 0
    at        integer not null,             -- the order within phase and rank: see `Element::at`; taken: by the boot's clock
    place     integer not null,             -- when it became ready first
    pushed    integer not null,
    priority  integer not null,
    order_key text,
    attempt   integer not null,
    fence     integer not null,
    taker     blob,                         -- the take, as `id`
    lease     integer,                      -- taken: the length of the lease in µs
    boot      text,                         -- taken: the boot whose clock `at` is of
    keep      integer,                      -- the time for which the result is kept, in µs
    before    blob,                         -- the element that waits for this one
    waits_for integer not null,             -- the number of predecessors that are not done
    cancelled integer not null,
    primary key (queue, id)
) strict, without rowid;

create index work_order on work (queue, phase, rank, at, id);
create index work_key on work (queue, order_key, phase, at, id) where order_key is not null;
create index work_boot on work (queue, boot) where phase = 3;

-- What is written seldom.
create table work_body (
    queue    integer not null,
    id       blob    not null,
    payload  blob    not null,
    error    text,                          -- why the last delivery has failed
    progress text,
    unique (queue, id)
) strict;

-- What is kept for a time: ids of `once` (kind 0), pushes (1), results (2), workers (3).
create table work_kept (
    queue   integer not null,
    kind    integer not null,
    id      blob    not null,
    until   integer not null,
    content blob    not null,               -- once: the id of the element. Results: 0 and bytes, 1 and a text, or 2
    primary key (queue, kind, id)
) strict, without rowid;

create index work_kept_until on work_kept (queue, until);
