-- Changes of live objects: a hash and the indexes of its fields, as RLiveObject has them.
--
-- KEYS[1] the object
-- KEYS[2] and so on: the indexes
-- ARGV[1] the verb
-- ARGV[2] the object in its indexes
-- ARGV[3] the number of indexes, then for each of them four arguments:
--         'number', the field, '1' if the field has a new number, this number
--         'value', the field, what precedes the name of values in their keys, the name of the new value ('' if there is none)
-- Then, with the verb
--         insert    fields and values                                        Reply: 1 or 0
--         write     the number of expected fields, for each of them the field, '1' if a value is expected, and these bytes;
--                   then for each written field the field, '1' if it is written, and the bytes  Reply: 1 or 0
--         add       the field, the addend, the smallest and the greatest sum  Reply: the sum, or nil
--         delete                                                             Reply: 1 or 0
local key, verb, member, indexes = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local at = 4 + 4 * indexes
must_be(key, 'hash')
for number = 1, indexes do
    must_be(KEYS[1 + number], ARGV[4 * number] == 'number' and 'zset' or 'hash')
end
local exists = redis.call('EXISTS', key) == 1

-- The values of the indexed fields before the change.
local before = {}
for number = 1, indexes do
    before[number] = exists and redis.call('HGET', key, ARGV[4 * number + 1])
end

-- Writes the new values of the indexed fields to their indexes.
local function change_indexes(sum)
    for number = 1, indexes do
        local index, first = KEYS[1 + number], 4 * number
        local field = ARGV[first + 1]
        if ARGV[first] == 'number' then
            local score = sum or ARGV[first + 2] == '1' and ARGV[first + 3]
            if score then redis.call('ZADD', index, score, member) else redis.call('ZREM', index, member) end
        else
            local old, new = before[number], redis.call('HGET', key, field)
            if old ~= new then
                local name = old and redis.call('HGET', index, old)
                if name then
                    local values = ARGV[first + 2] .. name
                    redis.call('SREM', values, member)
                    if redis.call('EXISTS', values) == 0 then redis.call('HDEL', index, old) end
                end
            end
            if new and ARGV[first + 3] ~= '' then
                redis.call('HSET', index, new, ARGV[first + 3])
                redis.call('SADD', ARGV[first + 2] .. ARGV[first + 3], member)
            end
        end
    end
end

if verb == 'insert' then
    if exists then return 0 end
    for first = at, #ARGV, 4000 do
        redis.call('HSET', key, unpack(ARGV, first, math.min(first + 3999, #ARGV)))
    end
    change_indexes()
    return 1
end
if not exists then return verb ~= 'add' and 0 end
if verb == 'delete' then
    redis.call('DEL', key)
    change_indexes()
    return 1
end
if verb == 'add' then
    local field = ARGV[at]
    local old = redis.call('HGET', key, field)
    redis.call('HINCRBY', key, field, ARGV[at + 1])
    local sum = redis.call('HGET', key, field)
    -- A number of Lua has 53 bits. The limits are of fewer bits, or those of 64 bits, which HINCRBY has.
    if tonumber(sum) < tonumber(ARGV[at + 2]) or tonumber(sum) > tonumber(ARGV[at + 3]) then
        if old then redis.call('HSET', key, field, old) else redis.call('HDEL', key, field) end
        return redis.error_reply('ERR increment or decrement would overflow')
    end
    change_indexes(sum)
    return sum
end
local expected = tonumber(ARGV[at])
for first = at + 1, at + 3 * expected, 3 do
    if redis.call('HGET', key, ARGV[first]) ~= (ARGV[first + 1] == '1' and ARGV[first + 2]) then return 0 end
end
for first = at + 1 + 3 * expected, #ARGV, 3 do
    if ARGV[first + 1] == '1' then
        redis.call('HSET', key, ARGV[first], ARGV[first + 2])
    else
        redis.call('HDEL', key, ARGV[first])
    end
end
change_indexes()
return 1
