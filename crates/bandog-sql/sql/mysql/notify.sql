-- Notifies the subscribers of channels, when the transaction commits.
-- $1 channels, sorted
-- Result: none.
insert into bandog_channel (name, number)
select g.name, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) from ($rows(1 name)) g
on duplicate key update number = greatest(number + 1, values(number))
