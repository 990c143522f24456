-- Reads the time of the server.
-- Parameters: none.
-- Result: the time.
select clock_timestamp()
