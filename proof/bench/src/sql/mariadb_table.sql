-- The table of the locks of the floor.
-- Parameters: none.
-- Result: none.
create table if not exists floor_lock (
    name varbinary(255) primary key, owner varchar(255), expires datetime(6), fence bigint
) engine = InnoDB
