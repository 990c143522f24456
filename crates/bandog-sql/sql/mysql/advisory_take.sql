-- Takes a lock of the server for this session, if no other session has it. A name of more than 64 characters is hashed.
-- $1 name
-- Result: whether the session has it. Null: the server has an error.
select get_lock(if(char_length(_utf8mb4 $1) > 64, sha2($1, 256), _utf8mb4 $1), 0)
