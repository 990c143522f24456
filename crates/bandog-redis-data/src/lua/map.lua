-- Writes to a map that depend on its value, answer with it, or are reported to the programs that have copies.
--
-- KEYS[1] the map
-- ARGV[1] the channel of the programs that have copies  ARGV[2] the message for them if the map changes, or ''
-- ARGV[3] the verb  ARGV[4] the field
--         insert     ARGV[5] the value                           Reply: the former value
--         take                                                   Reply: the value
--         swap       ARGV[5] '1' if a value is expected, ARGV[6] these bytes, ARGV[7] '1' if a value is written, ARGV[8]
--                    these bytes                                 Reply: 1 or 0
--         HSETNX     ARGV[5] the value                           Reply: 1 or 0
--         HINCRBY, HINCRBYFLOAT  ARGV[5] the addend              Reply: the sum
--         HSET       ARGV[4] and so on: fields and values        Reply: the number of new fields
--         HDEL       ARGV[4] and so on: fields                   Reply: the number of those that existed
local key, verb, field = KEYS[1], ARGV[3], ARGV[4]

-- The reply, and whether the map has changed.
local function apply()
    if verb == 'HSETNX' then
        local written = redis.call(verb, key, field, ARGV[5])
        return written, written == 1
    elseif verb == 'HSET' or verb == 'HDEL' then
        local count = 0
        for at = 4, #ARGV, 4000 do
            count = count + redis.call(verb, key, unpack(ARGV, at, math.min(at + 3999, #ARGV)))
        end
        return count, verb == 'HSET' or count > 0
    elseif verb == 'HINCRBY' or verb == 'HINCRBYFLOAT' then
        redis.call(verb, key, field, ARGV[5])
        return redis.call('HGET', key, field), true -- A number of Lua has 53 bits.
    end
    local value = redis.call('HGET', key, field)
    if verb == 'insert' then
        redis.call('HSET', key, field, ARGV[5])
        return value, true
    elseif verb == 'take' then
        redis.call('HDEL', key, field)
        return value, value ~= false
    end
    if value ~= (ARGV[5] == '1' and ARGV[6]) then return 0, false end
    if ARGV[7] == '1' then redis.call('HSET', key, field, ARGV[8]) else redis.call('HDEL', key, field) end
    return 1, true
end

local reply, has_changed = apply()
if has_changed and ARGV[2] ~= '' then redis.pcall('publish', ARGV[1], ARGV[2]) end
return reply
