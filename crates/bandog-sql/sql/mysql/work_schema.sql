-- Creates the tables of work queues, as far as they are missing, in the database of the URL. The version comes last. Clients
-- that use no work queue need none of them.
-- Parameters: none.
-- Result: none.

-- The queues and their settings. A row stays when its queue is empty.
create table if not exists bandog_work_queues (
    number        int not null auto_increment primary key,
    name          varbinary(1024) not null,
    is_paused     boolean not null default false,
    concurrency   bigint,                       -- maximum number of elements that are taken; null: no limit
    deliveries    bigint,                       -- the rate: this number of deliveries in a period; null: no limit
    period_micros bigint,                       -- the period of the rate
    next_delivery bigint not null default 0,    -- when the rate allows the next delivery
    unique key (name)
) engine = InnoDB row_format = dynamic default charset = utf8mb4 collate = utf8mb4_bin;

-- The elements. All times are in microseconds since 1970, by the clock of the server. A client changes a row often, so the
-- payload has a table of its own.
create table if not exists bandog_work (
    queue        int not null,
    id           binary(16) not null,           -- 8 bytes of the program that has pushed it, and 8 of its number
    phase        tinyint not null,              -- 0 ready, 1 delayed, 2 blocked, 3 taken, 4 dead
    line         tinyint not null,              -- ready: 9 minus the priority; else 0
    priority     tinyint not null,
    at           bigint not null,               -- delayed: when it is due; taken: the end of the lease; dead: when it died
    place        bigint not null,               -- when it became ready first
    pushed       bigint not null,
    attempt      int not null,
    fence        bigint not null,               -- that of the last delivery; a blocked one gets that of its predecessor
    taker        bigint,                        -- the take that has it
    take_number  bigint,
    keep_result  bigint,                        -- the time for which its result is kept; null: it has none
    before_id    binary(16),                    -- the element that waits for this one
    waits_for    int not null,                  -- the number of predecessors that are not done
    is_cancelled boolean not null,
    order_key    varbinary(255),
    order_at     bigint,                        -- with a key: -1 if it is ready, delayed or taken; blocked: `at`; else null
    primary key (queue, id),
    key in_order (queue, phase, line, at, id),
    key of_key (queue, order_key, order_at, id)
) engine = InnoDB row_format = dynamic default charset = utf8mb4 collate = utf8mb4_bin;

-- The texts of the elements.
create table if not exists bandog_work_body (
    queue    int not null,
    id       binary(16) not null,
    payload  longblob not null,
    error    longblob,                          -- why the last delivery has failed
    progress longblob,                          -- what the taker says about its progress
    primary key (queue, id)
) engine = InnoDB row_format = dynamic default charset = utf8mb4 collate = utf8mb4_bin;

-- What a queue keeps for a time.
create table if not exists bandog_work_kept (
    queue   int not null,
    kind    tinyint not null,                   -- 0 an id that is pushed once, 1 a push, 2 a result, 3 a worker, 4 a signal
    name    varbinary(255) not null,            -- a signal: an id and a fence
    until   bigint not null,
    element binary(16),                         -- 0: the element that has used the id; 4: the element that may become ready
    content longblob,                           -- 2: the result; 3: the text; 4: the key of order whose next one may be ready
    primary key (queue, kind, name),
    key ends (queue, until)
) engine = InnoDB row_format = dynamic default charset = utf8mb4 collate = utf8mb4_bin;

-- The locks of keys of order: a key has the row of its hash.
create table if not exists bandog_work_lock (
    number int not null primary key
) engine = InnoDB row_format = dynamic default charset = utf8mb4 collate = utf8mb4_bin;

-- Fails if a table of another program has one of these names.
select number, name, is_paused, concurrency, deliveries, period_micros, next_delivery from bandog_work_queues where 1 = 0;
select queue, id, phase, line, priority, at, place, pushed, attempt, fence, taker, take_number, keep_result, before_id, waits_for,
    is_cancelled, order_key, order_at from bandog_work where 1 = 0;
select queue, id, payload, error, progress from bandog_work_body where 1 = 0;
select queue, kind, name, until, element, content from bandog_work_kept where 1 = 0;

insert ignore into bandog_work_lock (number)
    select 16 * a.n + b.n from
        (select 0 n union all select 1 union all select 2 union all select 3 union all select 4 union all select 5 union all
         select 6 union all select 7 union all select 8 union all select 9 union all select 10 union all select 11 union all
         select 12 union all select 13 union all select 14 union all select 15) a
    cross join
        (select 0 n union all select 1 union all select 2 union all select 3 union all select 4 union all select 5 union all
         select 6 union all select 7 union all select 8 union all select 9 union all select 10 union all select 11 union all
         select 12 union all select 13 union all select 14 union all select 15) b;
insert ignore into bandog_meta (name, value) values ('work', '2')
