-- Reads the settings that endanger sessions that hold locks. MySQL does not have the first one.
-- Parameters: none.
-- Result: rows of name and value.
show global variables where variable_name in ('wsrep_on', 'max_user_connections')
