-- The table of the locks of the floor.
-- Parameters: none.
-- Result: none.
create table if not exists floor_lock (name text primary key, owner text, expires timestamptz, fence bigint)
    with (fillfactor = 50);
