-- Creates the tables of an empty shop.
-- Parameters: none.
-- Result: none.

-- The items of the shop. `units` is on offer, without the units that unpaid orders have reserved. `owned` is in the
-- warehouse. When each reservation was returned exactly once, the two are equal.
create table stock (
    item    text    not null primary key,
    units   integer not null,
    owned   integer not null
) strict, without rowid;

create table orders (
    id      integer not null primary key,
    item    text    not null references stock (item),
    units   integer not null,
    overdue integer not null,                   -- time after which it is overdue, in ms of the Unix epoch
    state   text    not null default 'unpaid' check (state in ('unpaid', 'closed'))
) strict;

-- One row for each return of the stock of an order.
create table restoration (
    order_id integer not null references orders (id),
    replica integer not null,
    fence   integer                             -- the fence of the run; null if a replica's own timer started it
) strict;
create index restoration_of on restoration (order_id);

-- One row for each mail to the customer of an order.
create table notified (
    order_id integer not null references orders (id),
    replica integer not null
) strict;
create index notified_of on notified (order_id);

-- The greatest fence of all writes: one row.
create table fence (
    greatest integer not null
) strict;
insert into fence (greatest) values (0);

-- One row for each replica that is ready to work.
create table replica (
    number  integer not null primary key
) strict;

-- Errors of replicas.
create table trouble (
    replica integer not null,
    trouble text    not null
) strict;

-- One row for each sweep.
create table sweep (
    id      integer not null primary key,
    replica integer not null,
    tick    integer not null,                   -- the tick of the sweep, in ms of the Unix epoch
    attempt integer,                            -- the run's attempt: 2 if the first replica died; null as for the fence
    fence   integer,                            -- the run's fence; null if a replica's own timer started the sweep
    state   text    not null check (state in ('sweeping', 'swept'))
) strict;
