-- The table of the locks of the floor.
-- Parameters: none.
-- Result: none.
create schema if not exists floor;
create table if not exists floor.lock (name text primary key, owner text, expires timestamptz, fence bigint)
    with (fillfactor = 50);
