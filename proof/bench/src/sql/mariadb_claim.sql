-- Takes a lock of the floor if it is free.
-- Parameters: name, owner.
-- Result: none; a row is changed if the lock is granted. The columns are set one after the other.
insert into floor_lock (name, owner, expires, fence) values (?, ?, utc_timestamp(6) + interval 30 second, 1)
on duplicate key update
    fence = if(owner is null or expires < utc_timestamp(6), fence + 1, fence),
    owner = if(owner is null or expires < utc_timestamp(6), values(owner), owner),
    expires = if(owner = values(owner), values(expires), expires)
