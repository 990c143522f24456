-- Adds a queue.
-- ?1 name
-- Result: none.
insert into work_queue (name, fence, paused, next_delivery) values (?1, 0, 0, 0);
