-- Deletes the expired rows of clients, and some of the channels that were not notified for ten minutes. Each call of a fair
-- mutex has a channel of its own.
-- Parameters: none.
-- Result: none.
delete from bandog_client where expires <= utc_timestamp(6);
delete from bandog_channel
where number < timestampdiff(microsecond, '1970-01-01', utc_timestamp(6) - interval 10 minute) order by number limit 1000
