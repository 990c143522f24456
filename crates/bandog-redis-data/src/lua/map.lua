-- Writes to a field of a map that depend on its value, or answer with it.
--
-- KEYS[1] the map
-- ARGV[1] the field
-- ARGV[2] insert  ARGV[3] the value                              Reply: the former value
--         take                                                   Reply: the value
--         swap    ARGV[3] '1' if a value is expected, ARGV[4] these bytes, ARGV[5] '1' if a value is written, ARGV[6]
--                 these bytes                                    Reply: 1 or 0
local key, field, verb = KEYS[1], ARGV[1], ARGV[2]
local value = redis.call('HGET', key, field)
if verb == 'insert' then
    redis.call('HSET', key, field, ARGV[3])
    return value
end
if verb == 'take' then
    redis.call('HDEL', key, field)
    return value
end
if value ~= (ARGV[3] == '1' and ARGV[4]) then return 0 end
if ARGV[5] == '1' then redis.call('HSET', key, field, ARGV[6]) else redis.call('HDEL', key, field) end
return 1
