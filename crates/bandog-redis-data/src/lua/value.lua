-- Compare-and-set of single values and counters, additions with a ttl or with an id.
--
-- KEYS[1]  the value
-- KEYS[2]  (add, add_float with an id) the answers that are remembered
-- ARGV[1]  swap           ARGV[2] '1' if a value is expected, ARGV[3] these bytes,
--                         ARGV[4] '1' if a value is written, ARGV[5] these bytes
--          swap_number    ARGV[2] the expected number, ARGV[3] the new one
--          swap_float     the same with floating-point numbers
--          add, add_float ARGV[2] the addend, ARGV[3] the ttl of a new value in ms ('' for none),
--                         ARGV[4..7] the id (see `remembered`)
-- Reply: 1 or 0 for a swap, the sum as a text for an addition.
local key, verb = KEYS[1], ARGV[1]

if verb == 'add' or verb == 'add_float' then
    local answer = remembered(KEYS[2], 4)
    if answer then return answer end
    -- One command, and the first one: a user who lacks the right to a later one must not make a counter that never ends.
    if ARGV[3] ~= '' and redis.call('EXISTS', key) == 0 then redis.call('SET', key, '0', 'PX', ARGV[3]) end
    redis.call(verb == 'add' and 'INCRBY' or 'INCRBYFLOAT', key, ARGV[2])
    local sum = redis.call('GET', key) -- A number of Lua would lose digits.
    remember(KEYS[2], 4, sum)
    return sum
end

local value = redis.call('GET', key)
if verb == 'swap_number' then
    if not (value or '0'):match('^-?%d+$') then
        return redis.error_reply('ERR value is not an integer or out of range')
    end
    if (value or '0') ~= ARGV[2] then return 0 end
    redis.call('SET', key, ARGV[3])
    return 1
end
if verb == 'swap_float' then
    local number = tonumber(value or '0')
    if not number then return redis.error_reply('ERR value is not a valid float') end
    if number ~= tonumber(ARGV[2]) then return 0 end
    redis.call('SET', key, ARGV[3])
    return 1
end
if value ~= (ARGV[2] == '1' and ARGV[3]) then return 0 end
if ARGV[4] == '1' then redis.call('SET', key, ARGV[5]) else redis.call('DEL', key) end
return 1
