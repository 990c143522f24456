-- Adds the tables of the locks that are not mutexes, which version 4 has. In a new database, this runs after records.sql.
-- In a database of an older version, it runs at the upgrade. The same transaction updates user_version.
-- Parameters: none.
-- Result: none.

-- The holds and the places of locks that are not mutexes. While such a lock is held, the row of its name in the table
-- `lease` has an owner too: the claim that holds a fair mutex, or the name of the kind of lock. So no mutex of the same
-- name is granted, also by a program of an older version. A hold in this table ends if that row gets another owner.
create table claim (
    name    text    not null,               -- the lock
    id      text    not null,               -- the claim
    kind    text    not null,               -- what the claim holds or waits for
    rank    integer not null,               -- the order of the holds, and the order of the places
    fence   integer,                        -- the end of the reserved block of fences; null for a place
    expires integer not null,               -- when the hold or the place expires, in ns of the boot clock of `boot`
    ttl     integer not null,               -- how long the last grant or renewal is valid, in ns
    stamp   integer not null,               -- rises with every grant and renewal
    boot    text    not null,               -- the boot id of that clock
    primary key (name, id)
) strict, without rowid;

-- Finds the holds and the first places of a lock, and counts places, without the rows of all places.
create index claim_queue on claim (name, fence, rank, expires);

-- The numbers of permits of semaphores.
create table semaphore (
    name    text    not null primary key,
    permits integer not null,
    former  integer not null                -- the number before the last change
) strict, without rowid;
