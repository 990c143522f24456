-- Changes the tables of work queues to the layout 2, in which payloads may be envelopes. The table of the queues has another name,
-- and the former name has a table without the columns that a program of the layout 1 needs, so that it can do nothing.
-- Parameters: none.
-- Result: none.
set local lock_timeout = '1s';
alter table bandog_work_queue rename to bandog_work_queues;
create table bandog_work_queue (work_queues_have_the_layout_2_use_a_newer_bandog int)
