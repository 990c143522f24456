-- Deletes the expired rows of clients, and the rows of channels that were not notified for an hour.
-- Parameters: none.
-- Result: none.
delete from bandog_client where expires <= utc_timestamp(6);
delete from bandog_channel where number < timestampdiff(microsecond, '1970-01-01', utc_timestamp(6) - interval 1 hour)
