-- Reads the settings that endanger sessions that hold locks. MySQL does not have it.
-- Parameters: none.
-- Result: rows of name and value.
show global variables where variable_name = 'wsrep_on'
