-- Frees a lock of this session.
-- $1 name
-- Result: whether the session had it.
select release_lock(if(char_length(_utf8mb4 $1) > 64, sha2($1, 256), _utf8mb4 $1))
