-- Changes the tables of work queues to the layout 2, in which payloads may be envelopes. A program that does not know it fails
-- with the text below at the first statement of each operation.
-- Parameters: none.
-- Result: none.
alter table work_queue rename to work_queues;
create view work_queue (id, name, fence, paused, concurrency, rate, period, next_delivery) as
    select text, text, text, text, text, text, text, text
    from (select json_extract('{}', 'the work queues have the layout 2: use a newer bandog') as text);
