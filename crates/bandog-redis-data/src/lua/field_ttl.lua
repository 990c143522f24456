-- Entries of a map that the server lets expire, as RMapCacheNative has them.
--
-- KEYS[1] the map
-- ARGV[1] the ttl in ms of written entries, or ''
-- ARGV[2] HSET       ARGV[3] and so on: fields and values                          Reply: 1
--         insert     ARGV[3] the field, ARGV[4] the value                          Reply: the former value
--         HSETNX     ARGV[3] the field, ARGV[4] the value                          Reply: 1 or 0
--         swap       ARGV[3] the field, ARGV[4] '1' if a value is expected, ARGV[5] these bytes, ARGV[6] '1' if a value is
--                    written, ARGV[7] these bytes. An entry that exists keeps its time. Reply: 1 or 0
--         HINCRBY or HINCRBYFLOAT  ARGV[3] the field, ARGV[4] the addend           Reply: the sum
--         set_life   ARGV[3] the field                                             Reply: 1 or 0
--         left       ARGV[3] the field              Reply: the time in ms, -1 (none) or -2 (absent)
local map, ttl, verb, field = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
must_be(map, 'hash')
-- A server without times of fields refuses this before the first write.
local left = redis.call('HPTTL', map, 'FIELDS', 1, field)[1] or -2
if verb == 'left' then return left end

local function set_life(of)
    if ttl ~= '' then
        redis.call('HPEXPIRE', map, ttl, 'FIELDS', 1, of)
    else
        redis.call('HPERSIST', map, 'FIELDS', 1, of)
    end
end
-- A written field has no time any more.
local function write(of, value)
    redis.call('HSET', map, of, value)
    if ttl ~= '' then set_life(of) end
end

if verb == 'HSET' then
    for at = 3, #ARGV, 2 do write(ARGV[at], ARGV[at + 1]) end
    return 1
end
local value = redis.call('HGET', map, field)
if verb == 'set_life' then
    if value then set_life(field) end
    return value and 1 or 0
elseif verb == 'insert' then
    write(field, ARGV[4])
    return value
elseif verb == 'HSETNX' then
    if not value then write(field, ARGV[4]) end
    return value and 0 or 1
elseif verb == 'HINCRBY' or verb == 'HINCRBYFLOAT' then
    redis.call(verb, map, field, ARGV[4])
    if not value and ttl ~= '' then set_life(field) end
    return redis.call('HGET', map, field)
elseif verb == 'swap' then
    if value ~= (ARGV[4] == '1' and ARGV[5]) then return 0 end
    if ARGV[6] ~= '1' then
        redis.call('HDEL', map, field)
    elseif not value then
        write(field, ARGV[7])
    else
        redis.call('HSET', map, field, ARGV[7])
        -- 0 is the last millisecond of an entry, in which it still exists.
        if left >= 0 then redis.call('HPEXPIRE', map, math.max(left, 1), 'FIELDS', 1, field) end
    end
    return 1
end
