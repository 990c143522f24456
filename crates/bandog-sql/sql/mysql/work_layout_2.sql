-- Changes the tables of work queues to the layout 2, in which payloads may be envelopes. The table of the queues has another name,
-- and the former name has a table without the columns that a program of the layout 1 needs, so that it can do nothing. Both get their
-- names in one step. The version is written afterwards (`work_raised`).
-- Parameters: none.
-- Result: none.
set session lock_wait_timeout = 1;
create table if not exists bandog_work_older (work_queues_have_the_layout_2_use_a_newer_bandog int) engine = InnoDB;
rename table bandog_work_queue to bandog_work_queues, bandog_work_older to bandog_work_queue
