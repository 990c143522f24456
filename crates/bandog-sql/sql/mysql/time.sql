-- Reads the time of the server.
-- Parameters: none.
-- Result: the time.
select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
